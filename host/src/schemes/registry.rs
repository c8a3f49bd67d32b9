//! Finds schemes by name.

use super::{
    dasr, dcqcn, dctcp, expresspass, fncc, hpcc, hpcc_plus, ibcc, iofd, multipath, powertcp, rcp, rocc,
    swift, timely, weir,
};
use crate::parameter::ParameterError;
use crate::scheme::{Scheme, SchemeConfig};
use crate::suggest::did_you_mean;
use std::fmt;
use std::sync::Arc;

/// Creates a scheme with default parameters.
type MakeScheme = Arc<dyn Fn() -> Box<dyn SchemeConfig> + Send + Sync>;

/// The schemes that experiment files, policies and agents may name.
///
/// A program passes one registry to everything that reads scheme names: [`Registry::builtin`], extended by
/// [`Registry::with`].
#[derive(Clone)]
pub struct Registry {
    schemes: Vec<MakeScheme>,
}

impl Registry {
    /// Returns the schemes of this crate. A new scheme is one file in this directory and one line here.
    pub fn builtin() -> Registry {
        Registry { schemes: Vec::new() }
            .with::<hpcc::Hpcc>()
            .with::<hpcc_plus::HpccPlus>()
            .with::<fncc::Fncc>()
            .with::<dcqcn::Dcqcn>()
            .with::<timely::Timely>()
            .with::<powertcp::PowerTcp>()
            .with::<powertcp::ThetaPowerTcp>()
            .with::<swift::Swift>()
            .with::<dctcp::Dctcp>()
            .with::<ibcc::Ibcc>()
            .with::<dasr::Dasr>()
            .with::<dasr::Dart>()
            .with::<iofd::IofdOnly>()
            .with::<weir::Weir>()
            .with::<rocc::Rocc>()
            .with::<rcp::Rcp>()
            .with::<expresspass::ExpressPass>()
            .with::<multipath::Uncoupled>()
            .with::<multipath::Amp>()
            .with::<multipath::Xmp>()
            .with::<multipath::Dcm>()
            .with::<multipath::Mptcp>()
    }

    /// Adds the scheme `S`.
    ///
    /// # Panics
    ///
    /// A scheme of that name is already registered.
    #[must_use]
    #[track_caller]
    pub fn with<S: Scheme>(self) -> Registry {
        self.with_factory(|| Box::new(S::default()))
    }

    /// Adds the scheme that `make` creates with default parameters.
    ///
    /// # Panics
    ///
    /// A scheme of that name is already registered.
    #[must_use]
    #[track_caller]
    pub fn with_factory(
        mut self,
        make: impl Fn() -> Box<dyn SchemeConfig> + Send + Sync + 'static,
    ) -> Registry {
        let new = make().name();
        assert!(self.names().all(|name| name != new), "a scheme named \"{new}\" is already registered");
        self.schemes.push(Arc::new(make));
        self
    }

    /// Creates every scheme with its default parameters, in the order of registration.
    pub fn schemes(&self) -> impl Iterator<Item = Box<dyn SchemeConfig>> + '_ {
        self.schemes.iter().map(|make| make())
    }

    /// Returns the names of the schemes, in the order of registration.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.schemes().map(|scheme| scheme.name())
    }

    /// Creates the scheme `name` with the given parameters set; the others have their defaults.
    ///
    /// # Errors
    ///
    /// The scheme or a parameter does not exist, or a value is invalid.
    pub fn make<K: AsRef<str>, V: AsRef<str>>(
        &self,
        name: &str,
        parameters: &[(K, V)],
    ) -> Result<Arc<dyn SchemeConfig>, SchemeError> {
        let mut scheme = self.instantiate(name)?;
        for (parameter, value) in parameters {
            scheme.set(parameter.as_ref(), value.as_ref())?;
        }
        Ok(Arc::from(scheme))
    }

    /// Creates the scheme `name` with its default parameters.
    ///
    /// # Errors
    ///
    /// The scheme does not exist; the error lists the known names.
    pub fn get(&self, name: &str) -> Result<Arc<dyn SchemeConfig>, SchemeError> {
        self.instantiate(name).map(Arc::from)
    }

    fn instantiate(&self, name: &str) -> Result<Box<dyn SchemeConfig>, SchemeError> {
        self.schemes().find(|scheme| scheme.name() == name).ok_or_else(|| {
            let known: Vec<_> = self.names().collect();
            let known = known.join(", ") + &did_you_mean(name, self.names());
            SchemeError::Unknown { name: name.to_owned(), known }
        })
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// The reason why a scheme cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemeError {
    /// No scheme has this name.
    #[error("unknown scheme \"{name}\"; known schemes: {known}")]
    Unknown {
        /// The unknown name.
        name: String,
        /// The known names, and a spelling suggestion if there is one.
        known: String,
    },
    /// A parameter could not be set.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
}
