//! The addresses of the Thrift servers, for subcommands that need more than P4Runtime offers.

use super::fabric::Fabric;
use crate::console::Failure;
use weir_client::{ThriftClient, ThriftError};
use weir_controller::topology::{Switch, SwitchIx};

#[derive(Debug, clap::Args)]
pub(crate) struct ThriftArgs {
    /// Thrift port of the first switch, others consecutive in topology order
    #[arg(long, value_name = "PORT", default_value_t = 9090)]
    thrift_base_port: u16,

    /// Host of the Thrift servers
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    thrift_host: String,
}

impl ThriftArgs {
    pub(crate) fn connect(&self, switch: SwitchIx) -> Result<ThriftClient, ThriftError> {
        ThriftClient::connect(&self.address(switch))
    }

    pub(crate) fn address(&self, switch: SwitchIx) -> String {
        let port = usize::from(self.thrift_base_port) + switch.0 as usize;
        format!("{}:{port}", self.thrift_host)
    }

    /// Calls `job` for every switch in topology order; stops at the first error.
    pub(crate) fn for_each_switch<T>(
        &self,
        fabric: &Fabric,
        mut job: impl FnMut(&Switch, &mut ThriftClient) -> Result<T, Failure>,
    ) -> Result<Vec<T>, Failure> {
        let switches = &fabric.topology.switches;
        let last = usize::from(self.thrift_base_port) + switches.len().saturating_sub(1);
        if last > usize::from(u16::MAX) {
            return Err(Failure::Input(format!(
                "--thrift-base-port: port range exhausted for {} switches (last port is 65535)",
                switches.len()
            )));
        }
        let run = |(port, switch): (u16, &Switch)| {
            let mut client = ThriftClient::connect(&format!("{}:{port}", self.thrift_host))
                .map_err(|error| Failure::Work(format!("{}: {error}", switch.name)))?;
            job(switch, &mut client)
        };
        (self.thrift_base_port..=u16::MAX).zip(switches).map(run).collect()
    }
}
