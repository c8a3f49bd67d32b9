//! `weir` with one more scheme: every command knows it, `weir schemes aimd` describes it.

mod aimd;

use aimd::Aimd;
use std::process::ExitCode;

fn main() -> ExitCode {
    weir::Cli::new().scheme::<Aimd>().run()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_host::schemes::Registry;
    use weir_testkit::conformance::Expectations;
    use weir_units::{Bytes, Time};

    // What every scheme must hold. The bounds are for two flows on one port of 100 Gbit/s with a base RTT of 6 us.
    weir_testkit::conformance!(conforms: Aimd, Expectations {
        fair_within: Time::from_ms(10),
        recovers_within: Time::from_ms(2),
        peak: Bytes::from_kb(400),
        steady: Bytes::from_kb(150),
    });

    #[test]
    fn aimd_has_a_name_and_parameters() {
        let registry = Registry::builtin().with::<Aimd>();
        let scheme = registry.make("aimd", &[("beta", "50%")]).unwrap();
        assert_eq!(scheme.get("beta").as_deref(), Some("0.5"));
        assert!(registry.make("aimd", &[("beta", "2")]).is_err());
    }
}
