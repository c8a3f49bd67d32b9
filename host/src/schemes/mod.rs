//! The schemes, one file each, and the list of them.

mod dasr;
mod dcqcn;
mod dctcp;
mod expresspass;
mod fncc;
mod hpcc;
mod hpcc_plus;
mod inflight;
mod iofd;
mod multipath;
mod pacing;
mod rcp;
mod rocc;
mod timely;
mod weir;

use crate::knob::KnobError;
use crate::scheme::{Scheme, SchemeConfig};
use std::sync::Arc;

/// Makes a scheme with all knobs at their defaults.
pub type MakeScheme = fn() -> Box<dyn SchemeConfig>;

/// Every scheme there is. A new one is one file beside this one and one line here.
pub fn registry() -> &'static [MakeScheme] {
    &[
        make::<hpcc::Hpcc>,
        make::<hpcc_plus::HpccPlus>,
        make::<fncc::Fncc>,
        make::<dcqcn::Dcqcn>,
        make::<timely::Timely>,
        make::<dctcp::Dctcp>,
        make::<dasr::Dasr>,
        make::<dasr::Dart>,
        make::<iofd::IofdOnly>,
        make::<weir::Weir>,
        make::<rocc::Rocc>,
        make::<rcp::Rcp>,
        make::<expresspass::ExpressPass>,
        make::<multipath::Uncoupled>,
        make::<multipath::Amp>,
        make::<multipath::Xmp>,
        make::<multipath::Dcm>,
        make::<multipath::Mptcp>,
    ]
}

fn make<S: Scheme>() -> Box<dyn SchemeConfig> {
    Box::new(S::default())
}

/// The scheme `name` with `knobs` tuned.
pub fn from_name_and_knobs<K: AsRef<str>, V: AsRef<str>>(
    name: &str,
    knobs: &[(K, V)],
) -> Result<Arc<dyn SchemeConfig>, SchemeError> {
    let mut all = registry().iter().map(|make| make());
    let Some(mut scheme) = all.find(|scheme| scheme.name() == name) else {
        let known: Vec<_> = registry().iter().map(|make| make().name()).collect();
        return Err(SchemeError::Unknown { name: name.to_owned(), known: known.join(", ") });
    };
    for (knob, value) in knobs {
        scheme.set(knob.as_ref(), value.as_ref())?;
    }
    Ok(Arc::from(scheme))
}

/// Why there is no such scheme.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemeError {
    /// No scheme has this name.
    #[error("there is no scheme \"{name}\", there are {known}")]
    Unknown {
        /// As given.
        name: String,
        /// All there are.
        known: String,
    },
    /// A knob could not be tuned.
    #[error(transparent)]
    Knob(#[from] KnobError),
}
