use weir_units::Time;

/// The reason why the controller cannot write a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlLoss {
    Standby,
    /// The connection broke or could not be made. The switch may still forward packets.
    Unreachable,
    /// The switch's host refused the connection (ECONNREFUSED): no process listens on the port.
    ConnectionRefused,
}

/// State of the control channel to one switch, as far as link failure detection depends on it: connected or not, echo
/// in flight, timely replies, port states.
#[derive(Clone, Debug)]
pub(super) struct ControlChannel {
    control: Result<(), ControlLoss>,
    /// Number of consecutive refused connections.
    refusals: u32,
    /// Echo request in flight.
    echo: Option<Echo>,
    /// Latest round whose probes the switch has certainly accepted.
    pub accepted: u64,
    /// Number of consecutive timely replies.
    timely_replies: u32,
    /// Whether a probe sent by this switch has arrived, and whether this switch has returned a probe.
    pub has_sent_probe: bool,
    pub has_returned_probe: bool,
    /// A request for port states is in flight.
    is_asked: bool,
    /// Latest port states, `(port, is_up)`; `None` if the switch has not reported any.
    ports: Option<Vec<(u16, bool)>>,
    /// Round of the last request for port states because of links on which no probe has ever arrived; `None` if there
    /// was none since the connection was made.
    unheard_asked: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Echo {
    round: u64,
    sent: Time,
}

impl ControlChannel {
    /// Returns the state before the first connection.
    pub fn new() -> ControlChannel {
        ControlChannel {
            control: Err(ControlLoss::Unreachable),
            refusals: 0,
            echo: None,
            accepted: 0,
            timely_replies: 0,
            has_sent_probe: false,
            has_returned_probe: false,
            is_asked: false,
            ports: None,
            unheard_asked: None,
        }
    }

    pub fn is_connected(&self) -> bool {
        self.control.is_ok()
    }

    /// Returns whether the switch is connected and its echo, if any, has been in flight for at most `patience`.
    pub fn is_answering(&self, now: Time, patience: Time) -> bool {
        self.is_connected() && self.echo.is_none_or(|echo| now <= echo.sent + patience)
    }

    /// Returns whether the switch has lost its connection or does not answer. Standby and dead switches are not silent.
    pub fn is_silent(&self, now: Time, patience: Time) -> bool {
        match self.control {
            Ok(()) => !self.is_answering(now, patience),
            Err(loss) => loss == ControlLoss::Unreachable,
        }
    }

    /// Returns the number of consecutive timely replies.
    pub fn answers(&self) -> u32 {
        self.timely_replies
    }

    pub fn connect(&mut self) {
        (self.control, self.refusals, self.unheard_asked) = (Ok(()), 0, None);
        self.restart();
    }

    /// Records a lost or failed connection. Returns whether the switch's process is known to be dead: `limit`
    /// consecutive refused connections.
    pub fn on_loss(&mut self, loss: ControlLoss, limit: u32) -> bool {
        self.control = Err(loss);
        self.restart();
        self.refusals = match loss {
            ControlLoss::ConnectionRefused => self.refusals.saturating_add(1),
            ControlLoss::Unreachable | ControlLoss::Standby => 0,
        };
        self.refusals >= limit
    }

    fn restart(&mut self) {
        self.echo = None;
        self.reset_counters();
    }

    /// Resets the count of timely replies, for example after the controller itself was delayed.
    pub fn reset_counters(&mut self) {
        self.timely_replies = 0;
    }

    /// Starts an echo request, unless one is in flight or the switch is not connected. Returns whether it started one.
    pub fn start_echo(&mut self, round: u64, now: Time) -> bool {
        let is_free = self.is_connected() && self.echo.is_none();
        if is_free {
            self.echo = Some(Echo { round, sent: now });
        }
        is_free
    }

    /// Handles the reply to the echo request of `round`. Returns whether it arrived within `patience`, or `None` if
    /// there was no such request.
    pub fn answer(&mut self, round: u64, now: Time, patience: Time) -> Option<bool> {
        let is_timely = self.is_answering(now, patience);
        self.echo.take_if(|echo| echo.round == round)?;
        self.accepted = round;
        self.timely_replies = self.timely_replies.saturating_add(1);
        Some(is_timely)
    }

    /// Marks port states as requested. Returns whether the caller has to send the request: none is in flight.
    pub fn request_port_states(&mut self) -> bool {
        if !self.is_asked {
            self.ports = None;
        }
        !std::mem::replace(&mut self.is_asked, true)
    }

    /// Like [`request_port_states`](Self::request_port_states), but at most once in `every` rounds.
    pub fn ask_ports_for_unheard(&mut self, round: u64, every: u64) -> bool {
        if self.unheard_asked.is_some_and(|asked| round < asked + every) {
            return false;
        }
        self.unheard_asked = Some(round);
        self.request_port_states()
    }

    pub fn take_ports(&mut self, ports: Option<Vec<(u16, bool)>>) {
        (self.is_asked, self.ports) = (false, ports);
    }

    pub fn waits_for_ports(&self) -> bool {
        self.is_asked
    }

    /// Returns whether a port is up; `None` if unknown.
    pub fn port(&self, number: u16) -> Option<bool> {
        self.ports.iter().flatten().find(|(port, _)| *port == number).map(|(_, is_up)| *is_up)
    }
}
