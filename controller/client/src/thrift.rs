//! Calls of BMv2's Thrift server for functions that P4Runtime or BMv2's implementation of it lacks: ports, rates and
//! depths of queues, and registers. `weir switch` implements the same calls.

use super::error::printable;
use std::io::{self, BufReader, BufWriter};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;
use thiserror::Error;
use thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TFieldIdentifier, TInputProtocol, TMessageIdentifier,
    TMessageType, TOutputProtocol, TStructIdentifier, TType,
};
use weir_units::{Bandwidth, Bytes};

/// Default timeout; a loaded switch may take seconds for one call.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// BMv2 has only one context.
const CONTEXT: i32 = 0;
/// The binary protocol with a version in each message, as BMv2 writes it.
const STRICT: bool = true;
/// Id of the return value in a Thrift result struct.
const RESULT_FIELD: i16 = 0;

/// Converts a bit rate to BMv2's unit, frames of this size per second. Returns at least 1, since 0 means unlimited.
pub fn packets_per_second(rate: Bandwidth, frame: Bytes) -> u64 {
    (rate.as_bytes_per_sec_f64() / frame.as_f64().max(1.0)).round().max(1.0) as u64
}

/// An argument of a call. Arguments are numbered from 1 in order.
enum Argument<'a> {
    I32(i32),
    I64(i64),
    Text(&'a str),
}

/// The reason why a call failed. The caller adds the name of the switch.
#[derive(Debug, Error)]
pub enum ThriftError {
    #[error("no Thrift server at {address}: {reason}")]
    Unreachable { address: String, reason: io::Error },
    /// The switch rejected the call, or the connection broke.
    #[error("Thrift at {address}: {}", printable(&source.to_string()))]
    Call { address: String, source: thrift::Error },
}

/// A connection to the Thrift server of one switch.
pub struct ThriftClient {
    address: String,
    input: TBinaryInputProtocol<BufReader<TcpStream>>,
    output: TBinaryOutputProtocol<BufWriter<TcpStream>>,
    /// Number of calls so far, which is the sequence number of the last one.
    calls: i32,
}

impl ThriftClient {
    /// Connects to `host:port` with the default timeout.
    ///
    /// # Errors
    ///
    /// See [`connect_with_timeout`](Self::connect_with_timeout).
    pub fn connect(address: &str) -> Result<ThriftClient, ThriftError> {
        ThriftClient::connect_with_timeout(address, CALL_TIMEOUT)
    }

    /// Connects to `host:port`. `timeout` applies to connecting and to each call.
    ///
    /// # Errors
    ///
    /// [`ThriftError::Unreachable`]: the name has no address, or none of its addresses accepts a connection in time.
    pub fn connect_with_timeout(address: &str, timeout: Duration) -> Result<ThriftClient, ThriftError> {
        let connect = || {
            let mut last_error = io::Error::other("the host name has no address");
            for address in address.to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, timeout) {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last_error = error,
                }
            }
            Err(last_error)
        };
        let open = || {
            let stream = connect()?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(timeout))?;
            stream.set_write_timeout(Some(timeout))?;
            Ok((stream.try_clone()?, stream))
        };
        let address = address.to_owned();
        match open() {
            Ok((input, output)) => Ok(ThriftClient {
                address,
                input: TBinaryInputProtocol::new(BufReader::new(input), STRICT),
                output: TBinaryOutputProtocol::new(BufWriter::new(output), STRICT),
                calls: 0,
            }),
            Err(reason) => Err(ThriftError::Unreachable { address, reason }),
        }
    }

    /// Reads all cells of a register array, in order of index. `name` is the full P4 name, such as
    /// `MyIngress.queue_bytes`.
    ///
    /// # Errors
    ///
    /// The switch has no such register or does not reply in time, or the connection broke.
    pub fn register_read_all(&mut self, name: &str) -> Result<Vec<i64>, ThriftError> {
        self.call("standard:bm_register_read_all", &[Argument::I32(CONTEXT), Argument::Text(name)], |input| {
            let list = input.read_list_begin()?;
            let cells = (0..list.size).map(|_| input.read_i64()).collect();
            input.read_list_end()?;
            cells
        })
    }

    /// Limits a port to this number of packets per second; BMv2 has no limit in bits.
    ///
    /// # Errors
    ///
    /// The switch does not reply in time, or the connection broke.
    pub fn set_queue_rate(&mut self, port: u16, packets: u64) -> Result<(), ThriftError> {
        let packets = i64::try_from(packets).unwrap_or(i64::MAX);
        self.call(
            "simple_switch:set_egress_queue_rate",
            &[Argument::I32(port.into()), Argument::I64(packets)],
            |input| input.read_i32().map(drop),
        )
    }

    /// Attaches an interface to a port.
    ///
    /// # Errors
    ///
    /// The switch rejects the interface or the port or does not reply in time, or the connection broke.
    pub fn add_port(&mut self, port: u16, interface: &str) -> Result<(), ThriftError> {
        let arguments = [Argument::Text(interface), Argument::I32(port.into()), Argument::Text("")];
        self.call_void("standard:bm_dev_mgr_add_port", &arguments)
    }

    /// Detaches the interface of a port.
    ///
    /// # Errors
    ///
    /// The port has no interface, the switch does not reply in time, or the connection broke.
    pub fn remove_port(&mut self, port: u16) -> Result<(), ThriftError> {
        self.call_void("standard:bm_dev_mgr_remove_port", &[Argument::I32(port.into())])
    }

    /// Sets the capacity of all queues of the switch, in packets.
    ///
    /// # Errors
    ///
    /// The switch does not reply in time, or the connection broke.
    pub fn set_queue_depth(&mut self, packets: u32) -> Result<(), ThriftError> {
        let packets = i32::try_from(packets).unwrap_or(i32::MAX);
        self.call("simple_switch:set_all_egress_queue_depths", &[Argument::I32(packets)], |input| {
            input.read_i32().map(drop)
        })
    }

    /// Returns the device id of the switch.
    ///
    /// # Errors
    ///
    /// The switch does not reply in time, or the connection broke.
    pub fn device_id(&mut self) -> Result<u64, ThriftError> {
        self.call("standard:bm_mgmt_get_info", &[], |input| {
            let mut device_id = 0;
            read_struct(input, |id, input| {
                // Field 1 is the device id.
                let is_device_id = id == 1;
                if is_device_id {
                    device_id = input.read_i64()?;
                }
                Ok(is_device_id)
            })?;
            Ok(u64::try_from(device_id).unwrap_or_default())
        })
    }

    /// Returns the ports of the switch as `(port, is_up)`.
    ///
    /// # Errors
    ///
    /// The switch does not reply in time, or the connection broke.
    pub fn ports(&mut self) -> Result<Vec<(u16, bool)>, ThriftError> {
        self.call("standard:bm_dev_mgr_show_ports", &[], |input| {
            let list = input.read_list_begin()?;
            let mut ports = Vec::new();
            for _ in 0..list.size {
                let (mut number, mut is_up) = (0, false);
                read_struct(input, |id, input| {
                    // Field 1 is the number, field 3 the state.
                    match id {
                        1 => number = input.read_i32()?,
                        3 => is_up = input.read_bool()?,
                        _ => return Ok(false),
                    }
                    Ok(true)
                })?;
                ports.extend(u16::try_from(number).map(|number| (number, is_up)));
            }
            input.read_list_end()?;
            Ok(ports)
        })
    }

    /// Performs a call that returns a value, which `result` reads.
    fn call<R>(
        &mut self,
        method: &str,
        arguments: &[Argument<'_>],
        result: impl FnMut(&mut dyn TInputProtocol) -> thrift::Result<R>,
    ) -> Result<R, ThriftError> {
        let result =
            self.exchange(method, arguments, result).and_then(|reply| reply.ok_or_else(|| rejected(method)));
        result.map_err(|source| ThriftError::Call { address: self.address.clone(), source })
    }

    /// Performs a call that returns nothing.
    fn call_void(&mut self, method: &str, arguments: &[Argument<'_>]) -> Result<(), ThriftError> {
        let result = self.exchange(method, arguments, |_| Ok(()));
        result.map(drop).map_err(|source| ThriftError::Call { address: self.address.clone(), source })
    }

    /// Performs a call and returns its result, or `None` if the method returns nothing. Every field other than 0 is an
    /// exception that the method declares, and becomes an error.
    fn exchange<R>(
        &mut self,
        method: &str,
        arguments: &[Argument<'_>],
        mut result: impl FnMut(&mut dyn TInputProtocol) -> thrift::Result<R>,
    ) -> thrift::Result<Option<R>> {
        self.calls = self.calls.wrapping_add(1);
        let out = &mut self.output;
        out.write_message_begin(&TMessageIdentifier::new(method, TMessageType::Call, self.calls))?;
        out.write_struct_begin(&TStructIdentifier::new("args"))?;
        for (id, argument) in (1..).zip(arguments) {
            let field = |kind| TFieldIdentifier::new("", kind, id);
            match argument {
                Argument::I32(value) => {
                    out.write_field_begin(&field(TType::I32))?;
                    out.write_i32(*value)?;
                }
                Argument::I64(value) => {
                    out.write_field_begin(&field(TType::I64))?;
                    out.write_i64(*value)?;
                }
                Argument::Text(value) => {
                    out.write_field_begin(&field(TType::String))?;
                    out.write_string(value)?;
                }
            }
        }
        out.write_field_stop()?;
        out.write_struct_end()?;
        out.write_message_end()?;
        out.flush()?;

        let input = &mut self.input;
        let message = input.read_message_begin()?;
        if message.message_type == TMessageType::Exception {
            return Err(thrift::Error::Application(thrift::Error::read_application_error_from_in_protocol(
                input,
            )?));
        }
        let (mut value, mut is_rejected) = (None, false);
        read_struct(input, |id, input| {
            let is_result = id == RESULT_FIELD;
            if is_result {
                value = Some(result(input)?);
            }
            is_rejected |= !is_result;
            Ok(is_result)
        })?;
        input.read_message_end()?;
        if is_rejected { Err(rejected(method)) } else { Ok(value) }
    }
}

/// Returns the error for a call that the switch answered with an exception.
fn rejected(method: &str) -> thrift::Error {
    thrift::Error::User(format!("{method} was rejected: unknown name, or value out of range").into())
}

/// Reads the fields of a struct. `read_field` reads the value of the field with this id, or returns `false` to skip it.
fn read_struct(
    input: &mut dyn TInputProtocol,
    mut read_field: impl FnMut(i16, &mut dyn TInputProtocol) -> thrift::Result<bool>,
) -> thrift::Result<()> {
    input.read_struct_begin()?;
    loop {
        let field = input.read_field_begin()?;
        if field.field_type == TType::Stop {
            break;
        }
        let is_read = match field.id {
            Some(id) => read_field(id, input)?,
            None => false,
        };
        if !is_read {
            input.skip(field.field_type)?;
        }
    }
    input.read_struct_end()
}
