//! The decisions about a session that is read: when bytes are read, which sessions run in addition, and when the
//! session ends. A session is pure: [`Session::step`] takes an input and a time, and returns the work for its driver,
//! `attempt::session`.
//!
//! ```text
//! bytes, results of the decoder, time --.                     .--> decode, flush, report
//! orders -------------------------------+--> Session::step ---+--> stop the session
//! settings, healing, requests ----------'                     '--> read the settings, heal or postpone the healing
//! ```
//!
//! * **Stop**: the first order to stop counts. Afterwards, the stream is read without pauses, and no other session
//!   starts. Sessions that run in addition can end within [`STOP_TIMEOUT`] after the order.
//! * **Other sessions**: the settings are read at most once, and at most one healing runs. Neither starts while memory
//!   is scarce, because a session costs the process some memory.
//! * **Silence**: the decoder releases the events that it has held back in a few steps ([`QUIET_STEPS`]).
//! * **End**: the first cause counts. All later inputs are ignored.

mod end;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::buffer::READ_BYTES;
use crate::order::{Order, STOP_TIMEOUT};
use crate::rounds::{Pace, Rounds};

pub(crate) use end::{Cause, Ending, StreamError, Verdict};

/// Delay between the start of a session and the session that reads the settings.
const SETTINGS_AFTER: Duration = Duration::from_secs(1);
/// Timeout for the stream's header. A runtime sends the header before it answers the command.
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);
/// Periods of silence after which the decoder releases the events that it has held back. A runtime writes its pending
/// events every 100 ms. The last step is longer than the time that the reconstruction waits for missing facts. Each
/// step is slightly shorter than a multiple of a round.
const QUIET_STEPS: [Duration; 3] = [
    Duration::from_millis(390),
    Duration::from_millis(790),
    Duration::from_millis(2590),
];
/// Time after a collection due to scarce memory during which no other session is started.
const SESSIONS_AFTER_SCARCITY: Duration = Duration::from_secs(30);
/// Time without reaching the end of the waiting bytes after which a stream counts as undrained.
const UNDRAINED_AFTER: Duration = Duration::from_secs(1);

/// Inputs of a session.
#[derive(Debug)]
pub(crate) enum Input {
    /// One read returned this number of bytes; 0 at the end of the stream.
    Bytes(usize),
    /// Reading failed, with the reason.
    Failed(String),
    /// The stream cannot be read any further: its memory or its bytes exceed a limit, or the bytes are damaged.
    Broken(StreamError),
    /// The decoder consumed the bytes of [`Output::Decode`].
    Decoded(Decoded),
    /// The decoder released the events that it had held back, after [`Output::Flush`].
    Flushed {
        /// Result of the decoder.
        decoded: Decoded,
        /// Whether the decoder would report more after a longer silence.
        is_waiting: bool,
    },
    /// Time passed.
    Time,
    /// The task was ordered to stop. A dropped supervisor leaves the order [`Order::Read`], and also stops the session.
    Order(Order),
    /// The settings were read, or cannot be read.
    SettingsRead,
    /// A healing is probably due. The current order can be an order that the session has not received yet.
    HealingDue(Order),
    /// The healing of [`Output::Heal`] started.
    HealingStarted,
    /// The running healing ended.
    Healed,
    /// The task that reads requests ended.
    RequestsEnded,
}

/// Results of the decoder that matter for the session.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Decoded {
    /// Whether the header of the stream was read.
    pub(crate) has_header: bool,
    /// Whether a collection due to scarce memory was observed.
    pub(crate) is_scarce: bool,
}

/// Outputs of a session, for its driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// Sets whether the end of the waiting bytes has not been reached for some time.
    Undrained(bool),
    /// This number of new bytes is decoded. The result is [`Input::Decoded`] or [`Input::Broken`].
    Decode(usize),
    /// The decoder releases the events that it has held back, after a silence of this duration. The result is
    /// [`Input::Flushed`] or [`Input::Broken`].
    Flush(Duration),
    /// Progress, released outcomes and threads are reported if they are due.
    Report,
    /// A session starts that reads the settings. The result is [`Input::SettingsRead`].
    ReadSettings,
    /// A healing starts if one is due. The results are [`Input::HealingStarted`] and [`Input::Healed`].
    Heal,
    /// No healing starts before this time.
    PostponeHealing(Instant),
    /// The driver requests the end of the session.
    RequestStop,
    /// All outcomes that wait for requests are reported, and outcomes no longer wait.
    ReleaseOutcomes,
}

/// The outputs of a step, in order.
pub(crate) type Outputs = [Option<Output>; 2];

/// Reading of the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SettingsReading {
    /// The settings are read at this time.
    Due(Instant),
    /// A session that reads the settings is running.
    Running,
    /// The settings are not read, or have been read.
    Done,
}

/// A session that is read.
#[derive(Debug)]
pub(crate) struct Session {
    began: Instant,
    /// The last order that was received.
    order: Order,
    /// Time at which all sessions must have ended; `None` before the order to stop.
    stop_by: Option<Instant>,
    /// The cause of the end; `None` while the session is read.
    cause: Option<Cause>,
    pace: Pace,
    has_header: bool,
    last_bytes: Instant,
    /// Number of [`QUIET_STEPS`] taken since the last bytes; `None` if no further step is needed.
    quiet_steps: Option<usize>,
    /// Time since which every read has filled the buffer; `None` if the last read reached the end of the waiting bytes.
    full_since: Option<Instant>,
    is_undrained: bool,
    settings: SettingsReading,
    is_healing: bool,
    /// Time of the last collection due to scarce memory; `None` if no such collection was observed.
    scarce_at: Option<Instant>,
}

impl Session {
    /// Creates a session that has just started. `rounds` is the schedule of all sessions.
    pub(crate) fn new(at: Instant, rounds: Arc<Rounds>, reads_settings: bool) -> Self {
        let settings = match reads_settings {
            true => SettingsReading::Due(at + SETTINGS_AFTER),
            false => SettingsReading::Done,
        };
        Self {
            began: at,
            order: Order::Read,
            stop_by: None,
            cause: None,
            pace: Pace::new(rounds, at),
            has_header: false,
            last_bytes: at,
            quiet_steps: None,
            full_since: None,
            is_undrained: false,
            settings,
            is_healing: false,
            scarce_at: None,
        }
    }

    /// Applies an input, and returns the resulting work in order.
    pub(crate) fn step(&mut self, at: Instant, input: Input) -> Outputs {
        if self.has_ended() {
            return [None, None];
        }
        match input {
            Input::Bytes(0) => self.cause = Some(Cause::Closed),
            Input::Bytes(count) => return [self.take(at, count), Some(Output::Decode(count))],
            Input::Failed(problem) => self.cause = Some(Cause::Failed(problem)),
            Input::Broken(error) => self.cause = Some(Cause::Broken(error)),
            Input::Decoded(decoded) => self.learn(at, decoded),
            Input::Flushed { decoded, is_waiting } => {
                self.learn(at, decoded);
                let next = self.quiet_steps.map(|step| step + 1);
                self.quiet_steps = next.filter(|step| is_waiting && *step < QUIET_STEPS.len());
                return [Some(Output::Report), self.read_settings(at)];
            }
            Input::Time => return self.pass(at),
            Input::Order(order) => return [self.stop(at, order), None],
            Input::SettingsRead => self.settings = SettingsReading::Done,
            Input::HealingDue(Order::Read) => return [self.heal(at), None],
            // The daemon is shutting down, or the process is now excluded.
            Input::HealingDue(Order::ShutDown | Order::Exclude) => {}
            Input::HealingStarted => self.is_healing = true,
            Input::Healed => self.is_healing = false,
            Input::RequestsEnded => return [Some(Output::ReleaseOutcomes), None],
        }
        [None, None]
    }

    /// Returns whether the session has ended. The driver then calls [`Self::ending`].
    pub(crate) fn has_ended(&self) -> bool {
        self.cause.is_some()
    }

    /// Returns whether reading is paused, although bytes can be available.
    pub(crate) fn rests(&self) -> bool {
        self.pace.until.is_some()
    }

    /// Returns whether no order to stop has been received.
    pub(crate) fn awaits_order(&self) -> bool {
        self.order == Order::Read
    }

    /// Returns whether a healing can start.
    pub(crate) fn awaits_healing(&self) -> bool {
        self.order == Order::Read && !self.is_healing
    }

    /// Returns the next time at which [`Input::Time`] has an effect, or `None` if only other inputs have an effect.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        let header = (!self.has_header).then(|| self.began + HEADER_TIMEOUT);
        let quiet = self.next_quiet_step().map(|after| self.last_bytes + after);
        let settings = match self.settings {
            SettingsReading::Due(at) => Some(at),
            SettingsReading::Running | SettingsReading::Done => None,
        };
        [self.pace.next(), header, quiet, settings].into_iter().flatten().min()
    }

    /// Returns how the session has ended. `is_closed_by_guard` states whether the guard closed the session. The driver
    /// keeps the session while it finishes the stream, so that a stopped session is still read without pauses.
    pub(crate) fn ending(&self, at: Instant, is_closed_by_guard: bool) -> Ending {
        let is_any_running = self.is_healing || self.settings == SettingsReading::Running;
        Ending {
            order: self.order,
            cause: self.cause.clone().unwrap_or(Cause::Closed),
            is_closed_by_guard,
            lived: at.saturating_duration_since(self.began),
            wait_until: is_any_running.then(|| self.stop_by.unwrap_or(at + STOP_TIMEOUT)),
        }
    }

    /// Handles new bytes. Returns an output if the stream has become undrained or is no longer undrained.
    fn take(&mut self, at: Instant, count: usize) -> Option<Output> {
        self.pace.take(count, at);
        self.last_bytes = at;
        self.quiet_steps = Some(0);
        self.full_since = (count >= READ_BYTES).then(|| self.full_since.unwrap_or(at));
        let undrained = self
            .full_since
            .is_some_and(|since| at.saturating_duration_since(since) >= UNDRAINED_AFTER);
        let before = std::mem::replace(&mut self.is_undrained, undrained);
        (before != undrained).then_some(Output::Undrained(undrained))
    }

    fn learn(&mut self, at: Instant, decoded: Decoded) {
        self.has_header |= decoded.has_header;
        if decoded.is_scarce {
            self.scarce_at = Some(at);
        }
    }

    fn pass(&mut self, at: Instant) -> Outputs {
        self.pace.pass(at);
        if !self.has_header && at >= self.began + HEADER_TIMEOUT {
            self.cause = Some(Cause::Broken(StreamError::NoHeader));
            return [None, None];
        }
        let silent = at.saturating_duration_since(self.last_bytes);
        if self.next_quiet_step().is_some_and(|after| silent >= after) {
            return [Some(Output::Flush(silent)), None];
        }
        [Some(Output::Report), self.read_settings(at)]
    }

    /// Returns the silence of the next quiet step, or `None` if no further step is needed.
    fn next_quiet_step(&self) -> Option<Duration> {
        QUIET_STEPS.get(self.quiet_steps?).copied()
    }

    /// Handles an order to stop.
    fn stop(&mut self, at: Instant, order: Order) -> Option<Output> {
        if self.order != Order::Read {
            return None;
        }
        self.order = match order {
            // The supervisor was dropped.
            Order::Read => Order::ShutDown,
            order => order,
        };
        self.stop_by = Some(at + STOP_TIMEOUT);
        self.pace.hurry(at);
        if let SettingsReading::Due(_) = self.settings {
            self.settings = SettingsReading::Done;
        }
        Some(Output::RequestStop)
    }

    /// Starts to read the settings if they are due. While memory is scarce, the settings are due later.
    fn read_settings(&mut self, at: Instant) -> Option<Output> {
        match self.settings {
            SettingsReading::Due(due) if due <= at => {}
            _ => return None,
        }
        if let Some(until) = self.scarce_until(at) {
            self.settings = SettingsReading::Due(until);
            return None;
        }
        self.settings = SettingsReading::Running;
        Some(Output::ReadSettings)
    }

    fn heal(&self, at: Instant) -> Option<Output> {
        if !self.awaits_healing() {
            return None;
        }
        Some(self.scarce_until(at).map_or(Output::Heal, Output::PostponeHealing))
    }

    /// Returns the time until which no other session is started because memory is scarce, or `None` if memory is not
    /// scarce.
    fn scarce_until(&self, at: Instant) -> Option<Instant> {
        let until = self.scarce_at.map(|scarce| scarce + SESSIONS_AFTER_SCARCITY);
        until.filter(|until| *until > at)
    }
}
