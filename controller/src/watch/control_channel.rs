use weir_units::Time;

/// A reason why a switch is not under control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlLoss {
    /// Another controller is the primary.
    Standby,
    /// The connection broke or could not be made. The switch may forward on.
    Unreachable,
    /// The switch's host refused the connection: no process listens any more.
    ConnectionRefused,
}

/// The control connection of one switch, as far as it bears on the links.
#[derive(Clone, Debug)]
pub(super) struct ControlChannel {
    control: Result<(), ControlLoss>,
    /// Refused connections in a row.
    refusals: u32,
    /// The request in flight.
    echo: Option<Echo>,
    /// Latest round whose probes the switch has taken.
    pub accepted: u64,
    /// Timely answers in a row.
    timely_replies: u32,
    /// True if a probe of this switch arrived, and whether it returned one.
    pub has_sent_probe: bool,
    pub has_returned_probe: bool,
    /// True if its port states were asked for and the answer is outstanding.
    is_asked: bool,
    /// The latest port states, if it gave any.
    ports: Option<Vec<(u16, bool)>>,
    /// Round in which its port states were asked for because no probe has ever passed a link; `None` if they were not
    /// since it was connected.
    unheard_asked: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Echo {
    round: u64,
    sent: Time,
}

impl ControlChannel {
    /// Returns a switch about which nothing is known yet.
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

    /// Returns whether it answers on its control connection within `patience`.
    pub fn is_answering(&self, now: Time, patience: Time) -> bool {
        self.is_connected() && self.echo.is_none_or(|echo| now <= echo.sent + patience)
    }

    /// Returns whether it should be under control and does not answer.
    pub fn is_silent(&self, now: Time, patience: Time) -> bool {
        match self.control {
            Ok(()) => !self.is_answering(now, patience),
            Err(loss) => loss == ControlLoss::Unreachable,
        }
    }

    /// Returns the number of timely answers in a row.
    pub fn answers(&self) -> u32 {
        self.timely_replies
    }

    pub fn connect(&mut self) {
        (self.control, self.refusals, self.unheard_asked) = (Ok(()), 0, None);
        self.restart();
    }

    /// Records a loss. Returns whether there is proof that the switch is dead: `limit` refusals in a row.
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

    /// Starts counting answers again.
    pub fn reset_counters(&mut self) {
        self.timely_replies = 0;
    }

    /// Starts a request, unless one is in flight or the switch is not under control.
    pub fn start_echo(&mut self, round: u64, now: Time) -> bool {
        let is_free = self.is_connected() && self.echo.is_none();
        if is_free {
            self.echo = Some(Echo { round, sent: now });
        }
        is_free
    }

    /// Takes the answer to the request of a round. Returns whether it came within `patience`; `None` if there was no
    /// such request.
    pub fn answer(&mut self, round: u64, now: Time, patience: Time) -> Option<bool> {
        let is_timely = self.is_answering(now, patience);
        self.echo.take_if(|echo| echo.round == round)?;
        self.accepted = round;
        self.timely_replies = self.timely_replies.saturating_add(1);
        Some(is_timely)
    }

    /// Returns whether its port states have to be asked for now.
    pub fn request_port_states(&mut self) -> bool {
        if !self.is_asked {
            self.ports = None;
        }
        !std::mem::replace(&mut self.is_asked, true)
    }

    /// As [`request_port_states`](Self::ask_ports), once in a number of rounds.
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

    /// Returns whether a port is up, if that is known.
    pub fn port(&self, number: u16) -> Option<bool> {
        self.ports.iter().flatten().find(|(port, _)| *port == number).map(|(_, is_up)| *is_up)
    }
}
