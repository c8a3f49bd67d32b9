//! The schemes that a program knows by name.

use super::{
    dasr, dcqcn, dctcp, expresspass, fncc, hpcc, hpcc_plus, iofd, multipath, rcp, rocc, timely, weir,
};
use crate::parameter::ParameterError;
use crate::scheme::{Scheme, SchemeConfig};
use crate::suggest::did_you_mean;
use std::fmt;
use std::sync::Arc;

/// Makes a scheme whose parameters have their defaults.
type MakeScheme = fn() -> Box<dyn SchemeConfig>;

/// The schemes that experiment files, policies and agents can name.
///
/// A program passes one registry down to everything that reads scheme names: [`Registry::builtin`], with the
/// program's own schemes added by [`Registry::with`].
#[derive(Clone)]
pub struct Registry {
    schemes: Vec<MakeScheme>,
}

impl Registry {
    /// Returns the schemes of this crate. A new one is one file beside this one and one line here.
    pub fn builtin() -> Registry {
        Registry { schemes: Vec::new() }
            .with::<hpcc::Hpcc>()
            .with::<hpcc_plus::HpccPlus>()
            .with::<fncc::Fncc>()
            .with::<dcqcn::Dcqcn>()
            .with::<timely::Timely>()
            .with::<dctcp::Dctcp>()
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

    /// Adds a scheme.
    ///
    /// # Panics
    ///
    /// If a scheme of that name is registered already: two crates of one program chose the same name.
    #[must_use]
    #[track_caller]
    pub fn with<S: Scheme>(mut self) -> Registry {
        assert!(
            self.names().all(|name| name != S::NAME),
            "a scheme named \"{}\" is registered already",
            S::NAME
        );
        self.schemes.push(|| Box::new(S::default()));
        self
    }

    /// Returns every scheme with its defaults, in the order of registration.
    pub fn schemes(&self) -> impl Iterator<Item = Box<dyn SchemeConfig>> + '_ {
        self.schemes.iter().map(|make| make())
    }

    /// Returns the names, in the order of registration.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.schemes().map(|scheme| scheme.name())
    }

    /// Makes the scheme `name` with some parameters set.
    ///
    /// # Errors
    ///
    /// If there is no such scheme, if it has no such parameter, or if the parameter does not take that value.
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

    /// Returns the scheme `name` with its defaults.
    ///
    /// # Errors
    ///
    /// If there is no such scheme; the error lists the names that there are.
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

/// A reason why a scheme cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemeError {
    /// No scheme has this name.
    #[error("there is no scheme \"{name}\", there are {known}")]
    Unknown {
        /// As given.
        name: String,
        /// The names that there are, and the one that may be meant.
        known: String,
    },
    /// A parameter could not be set.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
}
