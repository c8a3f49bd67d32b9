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

    #[test]
    fn aimd_has_a_name_and_parameters() {
        let registry = Registry::builtin().with::<Aimd>();
        let scheme = registry.make("aimd", &[("beta", "50%")]).unwrap();
        assert_eq!(scheme.get("beta").as_deref(), Some("0.5"));
        assert!(registry.make("aimd", &[("beta", "2")]).is_err());
    }
}
