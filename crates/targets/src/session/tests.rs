use proptest::prelude::*;

use super::*;

/// A session with a header, whose stream starts at 0 ms, and the clock of the test.
struct Driver {
    session: Session,
    rounds: Arc<Rounds>,
    began: Instant,
    /// Results of the decoder for the following outputs.
    decoded: Decoded,
    /// Whether the decoder would report more after a longer silence.
    is_waiting: bool,
}

impl Driver {
    fn new(reads_settings: bool) -> Self {
        let began = Instant::now();
        let mut driver = Self::without_header(began, reads_settings);
        driver.decoded.has_header = true;
        assert_eq!(driver.step(0, Input::Bytes(2_000)), [Output::Decode(2_000)]);
        driver
    }

    fn without_header(began: Instant, reads_settings: bool) -> Self {
        let rounds = Arc::default();
        Self {
            session: Session::new(began, Arc::clone(&rounds), reads_settings),
            rounds,
            began,
            decoded: Decoded::default(),
            is_waiting: false,
        }
    }

    fn at(&self, ms: u64) -> Instant {
        self.began + Duration::from_millis(ms)
    }

    /// Applies an input, and the results of the decoder for its outputs. Returns the outputs.
    fn step(&mut self, ms: u64, input: Input) -> Vec<Output> {
        self.step_at(self.at(ms), input)
    }

    fn step_at(&mut self, at: Instant, input: Input) -> Vec<Output> {
        let mut found = Vec::new();
        let mut next = Some(input);
        while let Some(input) = next.take() {
            for output in self.session.step(at, input).into_iter().flatten() {
                assert!(next.is_none(), "only the last output of a step has a result");
                next = match output {
                    Output::Decode(_) => Some(Input::Decoded(self.decoded)),
                    Output::Flush(_) => Some(Input::Flushed {
                        decoded: self.decoded,
                        is_waiting: self.is_waiting,
                    }),
                    _ => None,
                };
                found.push(output);
            }
        }
        found
    }

    /// Handles all timers that are due at `ms` or before. Returns the outputs with their times, in milliseconds,
    /// without [`Output::Report`].
    fn pass(&mut self, ms: u64) -> Vec<(u64, Output)> {
        let mut found = Vec::new();
        while let Some(timer) = self.session.next_timer()
            && timer <= self.at(ms)
            && !self.session.has_ended()
        {
            let at = u64::try_from((timer - self.began).as_millis()).unwrap();
            let mut outputs = self.step_at(timer, Input::Time);
            outputs.retain(|output| *output != Output::Report);
            found.extend(outputs.into_iter().map(|output| (at, output)));
            let is_repeated = self.session.next_timer() == Some(timer);
            assert!(
                !is_repeated || self.session.has_ended(),
                "the timer at {at} ms has no effect"
            );
        }
        found
    }

    /// Observes a collection due to scarce memory.
    fn observe_scarcity(&mut self, ms: u64) {
        self.decoded.is_scarce = true;
        assert_eq!(self.step(ms, Input::Bytes(100)), [Output::Decode(100)]);
        self.decoded.is_scarce = false;
    }

    fn start_healing(&mut self, ms: u64) {
        assert_eq!(self.step(ms, Input::HealingDue(Order::Read)), [Output::Heal]);
        assert_eq!(self.step(ms, Input::HealingStarted), []);
    }

    /// Closes the stream. Returns the time until which the driver waits for other tasks, in milliseconds.
    fn close(mut self, ms: u64) -> Option<u64> {
        assert_eq!(self.step(ms, Input::Bytes(0)), []);
        let (at, began) = (self.at(ms), self.began);
        let until = self.session.ending(at, false).wait_until?;
        Some(u64::try_from((until - began).as_millis()).unwrap())
    }
}

/// Scenario: the order to stop, or the end of the stream without an order, comes while the settings are read, while the
/// process is healed, during both or during neither.
/// Guarantee: the session stops immediately. The tasks have 3 s: after the order, or after the end of the stream if
/// there was no order. Without a task, there is no wait.
#[test]
fn other_sessions_have_3_s_after_stop() {
    for (reads_settings, heals) in [(true, false), (false, true), (true, true), (false, false)] {
        for order in [Some(Order::ShutDown), Some(Order::Exclude), None] {
            let mut driver = Driver::new(reads_settings);
            let settings = driver.pass(1_500).contains(&(1_000, Output::ReadSettings));
            assert_eq!(settings, reads_settings);
            if heals {
                driver.start_healing(1_600);
            }
            if let Some(order) = order {
                assert_eq!(driver.step(2_000, Input::Order(order)), [Output::RequestStop]);
            }
            let until = driver.close(2_700);
            let expected = if order.is_some() { 5_000 } else { 5_700 };
            assert_eq!(until, (reads_settings || heals).then_some(expected), "{order:?}");
        }
    }
}

/// Scenario: a healing is due before the order to stop, after an order that the session has not received yet, and after
/// an order that the session has received.
/// Guarantee: only the first healing starts.
#[test]
fn healing_does_not_start_after_order_to_stop() {
    for order in [Order::ShutDown, Order::Exclude] {
        let mut driver = Driver::new(false);
        assert!(driver.session.awaits_healing());
        assert_eq!(driver.step(100, Input::HealingDue(Order::Read)), [Output::Heal]);
        assert_eq!(driver.step(100, Input::HealingDue(order)), []);
        assert_eq!(driver.step(100, Input::Order(order)), [Output::RequestStop]);
        assert_eq!(driver.step(100, Input::HealingDue(order)), []);
        assert_eq!(driver.step(100, Input::HealingDue(Order::Read)), []);
        assert!(!driver.session.awaits_healing());
    }
}

/// Scenario: a healing is due, but the process no longer needs it; then a healing is due, runs and ends.
/// Guarantee: the session waits for the next healing unless a healing is running.
#[test]
fn one_healing_runs_at_a_time() {
    let mut driver = Driver::new(false);
    assert_eq!(driver.step(100, Input::HealingDue(Order::Read)), [Output::Heal]);
    assert!(driver.session.awaits_healing());
    driver.start_healing(200);
    assert!(!driver.session.awaits_healing());
    assert_eq!(driver.step(300, Input::HealingDue(Order::Read)), []);
    assert_eq!(driver.step(400, Input::Healed), []);
    assert!(driver.session.awaits_healing());
    driver.start_healing(500);
}

/// Scenario: a collection due to scarce memory is observed, and another one 20 s later; healings are due.
/// Guarantee: healings and the settings wait until 30 s after the last of these collections.
#[test]
fn scarce_memory_postpones_other_sessions() {
    let mut driver = Driver::new(true);
    driver.observe_scarcity(500);
    let until = driver.at(30_500);
    let postponed = [Output::PostponeHealing(until)];
    assert_eq!(driver.step(600, Input::HealingDue(Order::Read)), postponed);
    assert!(driver.session.awaits_healing());
    let mut found = driver.pass(20_500);
    driver.observe_scarcity(20_500);
    let until = driver.at(50_500);
    let postponed = [Output::PostponeHealing(until)];
    for ms in [30_500, 50_499] {
        found.extend(driver.pass(ms));
        assert_eq!(driver.step(ms, Input::HealingDue(Order::Read)), postponed);
    }
    found.extend(driver.pass(120_000));
    found.retain(|(_, output)| *output == Output::ReadSettings);
    assert_eq!(found, [(50_500, Output::ReadSettings)]);
    driver.start_healing(120_000);
}

/// Scenario: memory becomes scarce in the events that the decoder releases after a silence, when the settings are due.
/// Guarantee: the settings wait.
#[test]
fn scarcity_in_released_events_postpones_settings() {
    let mut driver = Driver::new(true);
    driver.is_waiting = true;
    driver.step(700, Input::Bytes(100));
    driver.decoded.is_scarce = true;
    let flush = Output::Flush(Duration::from_millis(390));
    assert_eq!(driver.step(1_090, Input::Time), [flush, Output::Report]);
    driver.decoded.is_scarce = false;
    driver.is_waiting = false;
    let later = driver.pass(40_000);
    assert!(later.contains(&(31_090, Output::ReadSettings)), "{later:?}");
}

/// Scenario: the settings and a healing are running when the order to stop comes. Both answers arrive after the order,
/// or after the end of the stream.
/// Guarantee: answers before the end are no longer waited for, and start no other session. Answers after the end change
/// nothing.
#[test]
fn late_answers_start_no_session() {
    let mut driver = Driver::new(true);
    driver.pass(1_000);
    driver.start_healing(1_100);
    driver.step(2_000, Input::Order(Order::ShutDown));
    assert_eq!(driver.step(2_100, Input::SettingsRead), []);
    assert_eq!(driver.step(2_200, Input::Healed), []);
    assert_eq!(driver.step(2_300, Input::HealingDue(Order::ShutDown)), []);
    assert_eq!(driver.pass(60_000), []);
    assert_eq!(driver.close(60_000), None);

    let mut driver = Driver::new(true);
    driver.pass(1_000);
    driver.start_healing(1_100);
    driver.step(2_000, Input::Bytes(0));
    assert_eq!(driver.step(2_100, Input::SettingsRead), []);
    assert_eq!(driver.step(2_200, Input::Healed), []);
    assert_eq!(driver.close(2_300), Some(5_300));
}

/// Scenario: a stream ends by each cause, and other causes, an order and bytes follow.
/// Guarantee: the first cause counts, and later inputs have no outputs.
#[test]
fn first_cause_of_end_counts() {
    let damaged = || StreamError::Damaged(nettrace::Error::Empty);
    let causes: [(fn() -> Input, Cause); 3] = [
        (|| Input::Bytes(0), Cause::Closed),
        (|| Input::Failed("reset".to_owned()), Cause::Failed("reset".to_owned())),
        (
            || Input::Broken(StreamError::NoHeader),
            Cause::Broken(StreamError::NoHeader),
        ),
    ];
    for (first, cause) in causes {
        let mut driver = Driver::new(true);
        assert!(!driver.session.has_ended());
        assert_eq!(driver.step(100, first()), []);
        assert!(driver.session.has_ended());
        let later = [
            Input::Bytes(0),
            Input::Bytes(9),
            Input::Failed("closed".to_owned()),
            Input::Broken(damaged()),
            Input::Order(Order::ShutDown),
            Input::HealingDue(Order::Read),
            Input::RequestsEnded,
            Input::Time,
        ];
        for input in later {
            assert_eq!(driver.step(20_000, input), []);
        }
        let at = driver.at(21_000);
        let ending = driver.session.ending(at, true);
        let expected = Ending {
            order: Order::Read,
            cause,
            is_closed_by_guard: true,
            lived: Duration::from_secs(21),
            wait_until: None,
        };
        assert_eq!(ending, expected);
    }
}

/// Scenario: a process that collects twice per second is read for ten minutes, with and without its settings; another
/// session is stopped before its settings are due.
/// Guarantee: the settings are read once, 1 s after the start, if they are wanted and no order to stop came.
#[test]
fn settings_are_read_once() {
    let read_at = |reads_settings: bool, stop_at: Option<u64>| {
        let mut driver = Driver::new(reads_settings);
        let mut found = Vec::new();
        for ms in (0..600_000).step_by(500) {
            if Some(ms) == stop_at {
                driver.step(ms, Input::Order(Order::Exclude));
            }
            found.extend(driver.pass(ms));
            driver.step(ms, Input::Bytes(3_000));
            if ms == 4_000 {
                driver.step(ms, Input::SettingsRead);
            }
        }
        found.retain(|(_, output)| *output == Output::ReadSettings);
        found.iter().map(|(at, _)| *at).collect::<Vec<_>>()
    };
    assert_eq!(read_at(true, None), [1_000]);
    assert_eq!(read_at(true, Some(1_500)), [1_000]);
    assert!(read_at(true, Some(500)).is_empty());
    assert!(read_at(false, None).is_empty());
}

/// Scenario: the task that reads requests ends: during the session, after the order to stop, and after the end.
/// Guarantee: the waiting outcomes are released unless the session has ended, which releases them itself.
#[test]
fn outcomes_do_not_wait_for_ended_requests() {
    let mut driver = Driver::new(false);
    assert_eq!(driver.step(100, Input::RequestsEnded), [Output::ReleaseOutcomes]);
    driver.step(200, Input::Order(Order::ShutDown));
    assert_eq!(driver.step(300, Input::RequestsEnded), [Output::ReleaseOutcomes]);
    driver.step(400, Input::Bytes(0));
    assert_eq!(driver.step(500, Input::RequestsEnded), []);
}

/// Scenario: a session is ordered to stop by each order, or its supervisor is dropped; a second order follows.
/// Guarantee: before the order, the stream is read in rounds; afterwards, the stream is read without pauses, and the
/// thread sleeps only for short times until the session is dropped. The first order counts. A dropped supervisor counts
/// as an order to shut down.
#[test]
fn order_to_stop_ends_pauses() {
    let orders = [
        (Order::ShutDown, Order::ShutDown),
        (Order::Exclude, Order::Exclude),
        (Order::Read, Order::ShutDown),
    ];
    for (order, counts) in orders {
        let mut driver = Driver::new(false);
        assert!(driver.session.rests() && driver.session.awaits_order());
        assert_eq!(driver.step(10, Input::Order(order)), [Output::RequestStop]);
        assert!(!driver.session.rests() && !driver.session.awaits_order());
        driver.step(20, Input::Bytes(100));
        assert!(!driver.session.rests());
        assert_eq!(driver.step(30, Input::Order(Order::ShutDown)), []);
        driver.step(40, Input::Failed("reset".to_owned()));
        driver.pass(10_000);
        let at = driver.at(10_000);
        assert_eq!(driver.session.ending(at, false).order, counts);
        assert_eq!(driver.rounds.rest(), Duration::from_millis(10));
    }
}

/// Scenario: bytes arrive, and the stream is silent afterwards, while the decoder waits for one, two or more releases.
/// Guarantee: the decoder releases events after each silence until it no longer waits, at most three times. Afterwards,
/// no timer is left, so the thread can sleep.
#[test]
fn decoder_releases_events_in_steps() {
    let steps = [390, 790, 2_590];
    for wanted in 1..=4 {
        let mut driver = Driver::new(false);
        driver.is_waiting = true;
        driver.pass(5_000);
        driver.step(10_000, Input::Bytes(100));
        let mut found = Vec::new();
        for ms in 10_000..20_000 {
            driver.is_waiting = found.len() + 1 < wanted;
            found.extend(driver.pass(ms));
        }
        let flush = |ms: &u64| (10_000 + ms, Output::Flush(Duration::from_millis(*ms)));
        let expected: Vec<_> = steps.iter().take(wanted).map(flush).collect();
        assert_eq!(found, expected);
        assert_eq!(driver.session.next_timer(), None);
    }
}

/// Scenario: the thread is late, so that all silences have passed at once; then new bytes arrive; then the decoder
/// finds the stream damaged.
/// Guarantee: one step is taken per timer, bytes restart the steps, and nothing is reported after the damage.
#[test]
fn damage_in_released_events_ends_session() {
    let mut driver = Driver::new(false);
    driver.is_waiting = true;
    let flush = |ms| Output::Flush(Duration::from_millis(ms));
    assert_eq!(driver.step(9_000, Input::Time), [flush(9_000), Output::Report]);
    assert_eq!(driver.step(9_001, Input::Time), [flush(9_001), Output::Report]);
    driver.step(9_002, Input::Bytes(100));
    assert_eq!(driver.step(9_100, Input::Time), [Output::Report]);
    let at = driver.at(9_392);
    assert_eq!(driver.session.step(at, Input::Time), [Some(flush(390)), None]);
    let damaged = StreamError::Damaged(nettrace::Error::Empty);
    assert_eq!(driver.session.step(at, Input::Broken(damaged)), [None, None]);
    assert!(driver.session.has_ended());
}

/// Scenario: one stream never delivers its header, although bytes arrive; another delivers its header after 14.9 s.
/// Guarantee: only the first session ends, 15 s after its start.
#[test]
fn stream_without_header_ends_after_15_s() {
    let began = Instant::now();
    for has_header in [false, true] {
        let mut driver = Driver::without_header(began, false);
        driver.step(100, Input::Bytes(8));
        driver.decoded.has_header = has_header;
        driver.step(14_900, Input::Bytes(8));
        driver.pass(14_999);
        assert!(!driver.session.has_ended());
        driver.pass(15_000);
        assert_eq!(driver.session.has_ended(), !has_header);
        let ending = driver.session.ending(began, false);
        assert_eq!(ending.is_broken(), !has_header);
        assert!(has_header || ending.cause == Cause::Broken(StreamError::NoHeader));
    }
}

/// Scenario: every read fills the buffer for 0.9 s, then for 2 s; then a read reaches the end of the waiting bytes.
/// Guarantee: the stream becomes undrained once, after 1 s of full reads, and is drained after the short read. The sink
/// is notified before the bytes are decoded.
#[test]
fn stream_is_undrained_after_1_s_of_full_reads() {
    let mut driver = Driver::new(false);
    let decode = Output::Decode(READ_BYTES);
    for ms in (1_000..=1_900).step_by(100) {
        assert_eq!(driver.step(ms, Input::Bytes(READ_BYTES)), [decode]);
    }
    assert_eq!(driver.step(1_950, Input::Bytes(50)), [Output::Decode(50)]);
    for ms in (2_000..=4_000).step_by(100) {
        let undrained = (ms == 3_000).then_some(Output::Undrained(true));
        let expected: Vec<_> = undrained.into_iter().chain([decode]).collect();
        assert_eq!(driver.step(ms, Input::Bytes(READ_BYTES)), expected, "{ms}");
    }
    let drained = [Output::Undrained(false), Output::Decode(50)];
    assert_eq!(driver.step(4_100, Input::Bytes(50)), drained);
}

/// Returns an input for a history.
fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        4 => Just(()).prop_map(|()| Input::Time),
        3 => (1..=READ_BYTES).prop_map(Input::Bytes),
        2 => any::<bool>().prop_map(|is_scarce| {
            Input::Decoded(Decoded {
                has_header: true,
                is_scarce,
            })
        }),
        1 => (0..3_u8).prop_map(|order| Input::HealingDue(order_number(order))),
        1 => Just(()).prop_map(|()| Input::HealingStarted),
        1 => Just(()).prop_map(|()| Input::Healed),
        1 => Just(()).prop_map(|()| Input::SettingsRead),
        1 => Just(()).prop_map(|()| Input::RequestsEnded),
    ]
}

fn order_number(number: u8) -> Order {
    [Order::Read, Order::ShutDown, Order::Exclude][usize::from(number)]
}

proptest! {
    /// Scenario: a session gets 60 inputs in any order, at any times; at some time an order to stop comes, and at some
    /// later time the stream ends.
    /// Guarantee: the settings are read at most once. No other session starts while a healing runs or after the order.
    /// The stop is requested once. No output follows the end.
    #[test]
    fn sessions_in_any_order_keep_limits(
        history in proptest::collection::vec((0..3_000_u64, input()), 60),
        order in 1..3_u8,
        stop in 0..60_usize,
        end in 0..60_usize,
    ) {
        let mut driver = Driver::new(true);
        let (mut ms, mut read, mut stops, mut heals) = (0, 0, 0, false);
        for (place, (passed, input)) in history.into_iter().enumerate() {
            ms += passed;
            if place == stop {
                let outputs = driver.step(ms, Input::Order(order_number(order)));
                prop_assert_eq!(outputs.is_empty(), stop > end);
                stops += outputs.iter().filter(|output| **output == Output::RequestStop).count();
            }
            let is_healed = matches!(input, Input::Healed);
            let is_started = matches!(input, Input::HealingStarted);
            let outputs = driver.step(ms, input);
            read += outputs.iter().filter(|output| **output == Output::ReadSettings).count();
            let starts = |output: &Output| matches!(output, Output::Heal | Output::ReadSettings);
            let is_other = outputs.iter().any(starts);
            prop_assert!(!is_other || place < stop);
            prop_assert!(!outputs.contains(&Output::Heal) || !heals);
            prop_assert!(!outputs.contains(&Output::RequestStop));
            prop_assert!(outputs.is_empty() || place <= end);
            heals = (heals || is_started) && !is_healed;
            if place == end {
                driver.step(ms, Input::Bytes(0));
            }
        }
        prop_assert!(read <= 1);
        prop_assert_eq!(stops, usize::from(stop <= end));
    }
}
