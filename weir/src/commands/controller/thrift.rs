//! The addresses of the switches' Thrift servers: options of the subcommands that need more than P4Runtime offers.

use super::fabric::Fabric;
use crate::console::Failure;
use weir_client::{ThriftClient, ThriftError};
use weir_controller::topology::{Switch, SwitchIx};

/// The addresses of the Thrift servers.
#[derive(Debug, clap::Args)]
pub struct ThriftArgs {
    /// Thrift port of the first switch, the others follow in the topology's order
    #[arg(long, value_name = "PORT", default_value_t = 9090)]
    thrift_base_port: u16,

    /// The machine they run on
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    thrift_host: String,
}

impl ThriftArgs {
    /// Connects to the server of one switch.
    pub fn connect(&self, switch: SwitchIx) -> Result<ThriftClient, ThriftError> {
        ThriftClient::connect(&self.address(switch))
    }

    /// Returns the address of the server of one switch.
    pub fn address(&self, switch: SwitchIx) -> String {
        let port = usize::from(self.thrift_base_port) + switch.0 as usize;
        format!("{}:{port}", self.thrift_host)
    }

    /// Does something at every switch, in the topology's order; ends at the first that fails.
    pub fn at_all<T>(
        &self,
        fabric: &Fabric,
        mut job: impl FnMut(&Switch, &mut ThriftClient) -> Result<T, Failure>,
    ) -> Result<Vec<T>, Failure> {
        let switches = &fabric.topology.switches;
        let last = usize::from(self.thrift_base_port) + switches.len().saturating_sub(1);
        if last > usize::from(u16::MAX) {
            return Err(Failure::Input(format!(
                "--thrift-base-port: no port is left for {} switches",
                switches.len()
            )));
        }
        let at = |(port, switch): (u16, &Switch)| {
            let mut client = ThriftClient::connect(&format!("{}:{port}", self.thrift_host))
                .map_err(|error| Failure::Work(format!("{}: {error}", switch.name)))?;
            job(switch, &mut client)
        };
        (self.thrift_base_port..=u16::MAX).zip(switches).map(at).collect()
    }
}
