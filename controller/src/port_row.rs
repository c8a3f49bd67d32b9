//! The computation of a port as the row of its table: the integers with which `p4src/controls` computes. The caller
//! chooses them; here they are only written.

use crate::call::Call;

/// A port's row in the table of a program that computes something for each port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortRow {
    /// Of `rocc_port`. Times are ticks of the switch's clock, sizes bytes, rates kbit/s.
    Rocc {
        /// Between two computations.
        period: u32,
        /// 2^32 over that.
        inverse: u32,
        /// The queue's reference.
        qref: u32,
        /// Growth that halves the rate.
        qmid: u32,
        /// Queue that lowers the rate to its least.
        qmax: u32,
        /// Least rate.
        fmin: u32,
        /// Most.
        fmax: u32,
        /// kbit/s per byte of distance from the reference, times 2^16.
        alpha: u32,
        /// kbit/s per byte of growth, times 2^16.
        beta: u32,
    },
    /// Of `rcp_port`.
    Rcp {
        /// Between two computations.
        period: u32,
        /// Least rate.
        rmin: u32,
        /// Most.
        rmax: u32,
        /// gamma*C, bytes per tick times 2^16.
        capacity: u32,
        /// Weight of spare capacity, times 2^16.
        alpha: u32,
        /// Weight of the queue per tick of the round-trip time, times 2^32.
        beta: u32,
        /// 2^32 over gamma*C*d in bytes.
        inverse_bdp: u32,
    },
    /// Of `credit_port`, in 1/256 ticks.
    Credits {
        /// Between two credits.
        interval: u32,
        /// How early a credit may be, in 1/256 ticks.
        burst: u32,
    },
}

impl PortRow {
    pub(crate) fn table(&self) -> &'static str {
        match self {
            PortRow::Rocc { .. } => "rocc_port",
            PortRow::Rcp { .. } => "rcp_port",
            PortRow::Credits { .. } => "credit_port",
        }
    }

    pub(crate) fn call(&self) -> Call {
        let (action, params): (_, Vec<(_, u128)>) = match *self {
            PortRow::Rocc { period, inverse, qref, qmid, qmax, fmin, fmax, alpha, beta } => (
                "pi",
                vec![
                    ("period", period.into()),
                    ("inverse", inverse.into()),
                    ("qmid", qmid.into()),
                    ("qmax", qmax.into()),
                    ("fmin", fmin.into()),
                    ("fmax", fmax.into()),
                    ("alpha_qref", u128::from(alpha) * u128::from(qref)),
                    ("alpha_gain", alpha.into()),
                    ("beta_gain", beta.into()),
                ],
            ),
            PortRow::Rcp { period, rmin, rmax, capacity, alpha, beta, inverse_bdp } => (
                "rcp",
                vec![
                    ("period", period.into()),
                    ("rmin", rmin.into()),
                    ("rmax", rmax.into()),
                    ("capacity", capacity.into()),
                    ("alpha_gain", alpha.into()),
                    ("beta_gain", beta.into()),
                    ("inverse_bdp", inverse_bdp.into()),
                ],
            ),
            PortRow::Credits { interval, burst } => {
                ("shape", vec![("interval", interval.into()), ("burst", burst.into())])
            }
        };
        Call { action, params }
    }
}
