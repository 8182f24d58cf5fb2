//! `gcwatch heap`: shows the live objects of a process and their holders.

use std::convert::Infallible;
use std::io::{self, IsTerminal as _, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use clr_heap::diff::{Growth, diff};
use clr_heap::survey::Survey;
use dotnet_diagnostics::{Client, Endpoint};
use tokio::sync::watch;

use crate::commands::burst::{BurstTarget, KeptRecording, Subject, guarded, read_process_files, stops};
use crate::commands::cli::{EvidenceFormat, Format, HeapArgs, HeapCommand, HeapDiffArgs, HeapFormat};
use crate::commands::executor;
use crate::commands::output::{Output, private_file, say};
use evidence::heap::child::{ANSWER_TIMEOUT, AnalysisProcess, AnalysisRequest, Answer, Form, saved};
use evidence::heap::price::{self, Price};
use evidence::heap::session::{self, deadlines};
use evidence::heap::{MAX_BYTES, free_half};
use evidence::lock::BurstLock;
use processes::files::AtomicFile;
use recording::source::Source;
use report::heap as report;

/// First major version of .NET that can wait for its reader.
const WAITS_SINCE: u32 = 11;

/// Runs the command. Returns `false` if the result is incomplete, which was reported.
pub(crate) fn run(args: &HeapArgs) -> anyhow::Result<bool> {
    if let Some(HeapCommand::Diff(diff)) = &args.command {
        return compare(diff);
    }
    let subject = Subject::from_args(&args.subject)?;
    let mut target = Destination::open(args)?;
    match subject {
        Subject::Recording(file) => {
            if args.diff.is_some() || args.price {
                anyhow::bail!("a recording has one dump and no price; `gcwatch heap diff A B` compares two");
            }
            let answer = from_file(file, &target.what(args, None), target.sink())?;
            target.finish(&answer.survey, args)?;
            Ok(true)
        }
        Subject::Process(pid) => executor()?.block_on(live(pid, args, target)),
    }
}

/// Destination and format of the answer.
struct Destination {
    form: Form,
    /// Output for tables and records; `None` for other formats.
    output: Option<Output<EvidenceFormat>>,
    /// File in the format of another program; `None` for tables and records. Another thread writes the file, and
    /// [`Self::complete`] completes it.
    file: Option<Shared>,
}

/// A file or standard output that another thread writes. [`Destination::complete`] completes the file.
#[derive(Clone)]
struct Shared(std::sync::Arc<std::sync::Mutex<Option<AtomicFile>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Ok(mut file) = self.0.lock() else {
            return Err(io::Error::other("the writing thread has panicked"));
        };
        match file.as_mut() {
            Some(file) => file.write(bytes),
            None => io::stdout().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Destination {
    /// Opens the destination. This happens before the dump, so that no dump runs if the destination cannot be written.
    fn open(args: &HeapArgs) -> anyhow::Result<Self> {
        let format = args.format.or_else(|| args.output.as_deref().map(by_extension));
        let (form, evidence) = match format {
            None => (Form::Records, None),
            Some(HeapFormat::Table) => (Form::Records, Some(EvidenceFormat::Table)),
            Some(HeapFormat::Ndjson) => (Form::Records, Some(EvidenceFormat::Ndjson)),
            Some(HeapFormat::Pprof) => (Form::Pprof, None),
            Some(HeapFormat::Heapsnapshot) => (Form::Snapshot, None),
            Some(HeapFormat::Folded) => (Form::Folded, None),
            Some(HeapFormat::Svg) => (Form::Svg, None),
        };
        if form == Form::Records {
            let output = Output::open(evidence, args.output.as_deref(), args.force)?;
            return Ok(Self {
                form,
                output: Some(output),
                file: None,
            });
        }
        if args.histogram || args.diff.is_some() || args.only.is_some() {
            anyhow::bail!("this format contains the whole graph of one dump; do not use --histogram, --diff or --type");
        }
        if args.output.is_none() && form == Form::Pprof && io::stdout().is_terminal() {
            anyhow::bail!("a pprof profile is not for a terminal; use -o FILE");
        }
        let file = args
            .output
            .as_deref()
            .map(|file| private_file(file, args.force))
            .transpose()?;
        Ok(Self {
            form,
            output: None,
            file: Some(Shared(std::sync::Arc::new(std::sync::Mutex::new(file)))),
        })
    }

    fn what(&self, args: &HeapArgs, pid: Option<u32>) -> AnalysisRequest {
        let most = match args.memory {
            Some(megabytes) => megabytes.saturating_mul(1 << 20),
            None => MAX_BYTES.min(free_half()),
        };
        AnalysisRequest {
            form: self.form,
            histogram: args.histogram,
            most,
            pid,
            only: args.only.clone(),
        }
    }

    fn sink(&self) -> Option<Box<dyn Write + Send>> {
        self.file.clone().map(|file| Box::new(file) as Box<dyn Write + Send>)
    }

    /// Writes the answer as a table or as records.
    fn finish(&mut self, survey: &Survey, args: &HeapArgs) -> anyhow::Result<()> {
        if let Some(output) = &mut self.output {
            match output.format {
                EvidenceFormat::Ndjson => {
                    let mut survey = survey.clone();
                    if let Some(only) = &args.only {
                        let only = only.to_lowercase();
                        let is_meant = |name: &str| name.to_lowercase().contains(&only);
                        survey
                            .types
                            .retain(|row| is_meant(&row.r#type) || is_meant(&row.raw_type));
                    }
                    output.records(survey.records())?;
                }
                _ => report::write(output.text(), survey, args.only.as_deref(), args.top)?,
            }
        }
        self.complete()
    }

    fn growth(&mut self, after: &Survey, growth: &[Growth], top: usize) -> anyhow::Result<()> {
        if let Some(output) = &mut self.output {
            match output.format {
                EvidenceFormat::Ndjson => {
                    output.records(after.clone().records())?;
                    output.records(growth)?;
                }
                _ => {
                    report::write(output.text(), after, None, top)?;
                    writeln!(output.text())?;
                    report::write_growth(output.text(), growth, top)?;
                }
            }
        }
        self.complete()
    }

    fn complete(&mut self) -> anyhow::Result<()> {
        if let Some(output) = self.output.take() {
            output.finish()?;
        }
        if let Some(file) = self.file.take()
            && let Ok(mut file) = file.0.lock()
            && let Some(file) = file.take()
        {
            file.complete()?;
        }
        io::stdout().flush()?;
        Ok(())
    }
}

fn by_extension(file: &Path) -> HeapFormat {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("heapsnapshot") => HeapFormat::Heapsnapshot,
        Some("pb" | "pprof" | "gz") => HeapFormat::Pprof,
        Some("folded") => HeapFormat::Folded,
        Some("svg") => HeapFormat::Svg,
        Some("txt") => HeapFormat::Table,
        _ => HeapFormat::Ndjson,
    }
}

/// Reads a recording with a dump.
fn from_file(file: &Path, what: &AnalysisRequest, sink: Option<Box<dyn Write + Send>>) -> anyhow::Result<Answer> {
    let mut source = Source::open(file)?;
    let mut computing = AnalysisProcess::start(what, sink).context("cannot start a process for the graph")?;
    let mut buffer = vec![0; source.read_size()];
    loop {
        match source.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => {
                if computing.feed(buffer.get(..read).unwrap_or_default()) != session::FeedOutcome::Taken {
                    break;
                }
            }
            Err(error) => {
                say(format_args!("{error}; reading the part before"));
                break;
            }
        }
    }
    let mut answer = computing
        .finish(ANSWER_TIMEOUT)
        .map_err(|error| anyhow::anyhow!("{}: {error}", source.name()))?;
    answer.survey.heap.process = Some(source.name().to_owned());
    Ok(answer)
}

/// Queries the process, and reports the price of a dump.
async fn look_at(pid: u32, args: &HeapArgs) -> anyhow::Result<(BurstTarget, Price)> {
    let asked = BurstTarget::find(pid).await?;
    let (process, major, histogram) = (asked.process.clone(), asked.major(), args.histogram);
    let price = read_process_files(pid, move || price::estimate(&process, major, histogram)).await?;
    say(format_args!("process {pid}: {}", sentence(&price)));
    if let Some(impossible) = &price.impossible {
        anyhow::bail!("process {pid}: {impossible}");
    }
    if args.small_buffer && asked.major().is_none_or(|major| major < WAITS_SINCE) {
        anyhow::bail!("process {pid}: --small-buffer needs .NET {WAITS_SINCE}, whose runtime can wait for its reader");
    }
    Ok((asked, price))
}

async fn live(pid: u32, args: &HeapArgs, mut target: Destination) -> anyhow::Result<bool> {
    let interrupts = Interrupts::listen()?;
    let (asked, price) = tokio::select! {
        looked = look_at(pid, args) => looked?,
        () = interrupts.reach(1) => anyhow::bail!("process {pid}: interrupted"),
    };
    let endpoint = Endpoint::for_process(&asked.process)?;
    let client = guarded(Client::with_deadlines(endpoint, deadlines(price.within())));
    if args.price {
        return Ok(true);
    }
    if !args.force
        && let Some(refusal) = price.refusals.first()
    {
        let hint = if asked.major().is_some_and(|major| major >= WAITS_SINCE) {
            "; --small-buffer takes 16 MB of memory and more time"
        } else {
            ""
        };
        anyhow::bail!("process {pid}: no dump taken: {refusal}; --force overrides this{hint}");
    }
    let turn = match BurstLock::take(args.lease_folder.clone(), pid, asked.process.uid) {
        Ok(turn) => Some(turn),
        Err(_) if args.force => None,
        Err(taken) => {
            anyhow::bail!("process {pid}: no dump taken: {taken}; it would pause twice; --force overrides this")
        }
    };
    if let Some(no_lock) = turn.as_ref().and_then(BurstLock::no_lock) {
        say(no_lock);
    }
    if interrupts.is_any() {
        anyhow::bail!("process {pid}: interrupted");
    }
    let mut what = target.what(args, Some(pid));
    let (first, mut is_whole) = dump(&asked, &client, &price, args, &target, &what, &interrupts).await?;
    let Some(apart) = args.diff else {
        target.finish(&first.survey, args)?;
        return Ok(is_whole);
    };
    if apart > Duration::ZERO {
        say(format_args!("the second dump starts in {:.0} s", apart.as_secs_f64()));
    }
    tokio::select! {
        () = tokio::time::sleep(apart) => {}
        () = interrupts.reach(1) => anyhow::bail!("process {pid}: interrupted between two dumps"),
    }
    if first.late.is_some() {
        what.pid = None;
    }
    let (second, is_second_whole) = dump(&asked, &client, &price, args, &target, &what, &interrupts).await?;
    is_whole &= is_second_whole;
    target.growth(&second.survey, &diff(&first.survey, &second.survey), args.top)?;
    Ok(is_whole)
}

/// Number of times that Ctrl-C was pressed or SIGTERM arrived. The first interrupt cancels the answer but not the
/// stream, because the runtime would write the dump anyway. The second interrupt closes the session.
struct Interrupts(watch::Receiver<u32>);

impl Interrupts {
    fn listen() -> anyhow::Result<Self> {
        let stopped = stops()?;
        let (sender, receiver) = watch::channel(0);
        tokio::spawn(async move {
            loop {
                stopped.notified().await;
                sender.send_modify(|count| *count += 1);
            }
        });
        Ok(Self(receiver))
    }

    fn is_any(&self) -> bool {
        *self.0.borrow() > 0
    }

    /// Waits until the number of interrupts is at least `least`. This method is cancel safe.
    async fn reach(&self, least: u32) {
        let mut count = self.0.clone();
        if count.wait_for(|count| *count >= least).await.is_err() {
            // No more signals can arrive.
            std::future::pending().await
        }
    }
}

async fn dump(
    asked: &BurstTarget,
    client: &Client,
    price: &Price,
    args: &HeapArgs,
    target: &Destination,
    what: &AnalysisRequest,
    interrupts: &Interrupts,
) -> anyhow::Result<(Answer, bool)> {
    let pid = asked.process.pid;
    let mut kept = KeptRecording::open(args.keep.as_deref(), args.force)?;
    let mut computing = AnalysisProcess::start(what, target.sink()).context("cannot start a process for the graph")?;
    let wanted = session::DumpOptions {
        buffer_mb: price.buffer_mb,
        histogram: args.histogram,
        small_buffer: args.small_buffer,
    };
    let done = session::run(client, wanted, interrupts.reach(2), |bytes| {
        kept.write(bytes);
        if interrupts.is_any() {
            session::FeedOutcome::Unwanted
        } else if args.small_buffer {
            computing.feed_at_once(bytes)
        } else {
            computing.feed(bytes)
        }
    });
    let done = tokio::select! {
        done = done => done,
        never = announce(interrupts) => match never {},
    };
    let done = match done {
        Ok(done) => done,
        Err(error) => {
            computing.give_up();
            return Err(error.into());
        }
    };
    if done.is_closed {
        computing.give_up();
        anyhow::bail!(
            "process {pid}: closed the session before its end: the process can continue the dump without a reader, \
             keeps up to {} MiB until then, and its next dump may have no names of types",
            price.buffer_mb
        );
    }
    let is_kept = kept.complete();
    if let Some(problem) = &done.not_healed {
        say(format_args!(
            "process {pid}: the session that makes its runtime forget this one failed ({problem}): the next dump \
             may have no names of types"
        ));
    }
    if interrupts.is_any() {
        computing.give_up();
        anyhow::bail!("process {pid}: interrupted; its dump was read to the end");
    }
    let canceller = computing.canceller();
    let mut finishing = tokio::task::spawn_blocking(move || computing.finish(ANSWER_TIMEOUT));
    let finished = tokio::select! {
        biased;
        () = interrupts.reach(1) => {
            canceller.cancel();
            finishing.await?
        }
        finished = &mut finishing => finished?,
    };
    let mut answer = match (finished, &done.cut) {
        (Ok(answer), _) => answer,
        (Err(_), _) if interrupts.is_any() => {
            anyhow::bail!("process {pid}: interrupted; its dump was read to the end")
        }
        (Err(_), Some(cut)) => anyhow::bail!("process {pid}: {cut}"),
        (Err(error), None) => anyhow::bail!("process {pid}: {error}"),
    };
    if answer.late.is_some() {
        say(format_args!(
            "process {pid}: its assemblies did not respond in time: static fields have no class"
        ));
    }
    let heap = &mut answer.survey.heap;
    heap.pid = Some(pid);
    heap.process = Some(asked.process.name.clone());
    heap.runtime.clone_from(&asked.runtime);
    let is_whole = done.cut.is_none() && done.not_healed.is_none() && is_kept;
    Ok((answer, is_whole))
}

/// Reports the first interrupt while the stream is read.
async fn announce(interrupts: &Interrupts) -> Infallible {
    interrupts.reach(1).await;
    say(
        "interrupted: reading the dump to its end without an answer, so that the process gets its memory back; \
         again to close the session",
    );
    std::future::pending().await
}

/// Returns a sentence about the price of a dump.
fn sentence(price: &Price) -> String {
    let forecast = &price.forecast;
    let twice = if forecast.stops > 1 {
        ", twice, because its runtime is older than .NET 10"
    } else {
        ""
    };
    let free = match (price.free_bytes, price.is_limited) {
        (Some(free), true) => format!(" of its container, of which {} MiB are free", free >> 20),
        (Some(free), false) => format!("; the machine has {} MiB free", free >> 20),
        (None, _) => String::new(),
    };
    format!(
        "a heap dump stops all threads for about {}{twice}, and takes up to {} MiB in addition to the heap{free}. \
         gcwatch waits at most {} s for the dump",
        report::seconds(forecast.stop_ns),
        price.buffer_mb,
        price.within().as_secs()
    )
}

fn compare(args: &HeapDiffArgs) -> anyhow::Result<bool> {
    let read = |path: &Path| -> anyhow::Result<Survey> {
        if path != Path::new("-")
            && let Some(survey) = saved(path).with_context(|| format!("cannot read {}", path.display()))?
        {
            return Ok(survey);
        }
        let what = AnalysisRequest {
            form: Form::Records,
            histogram: false,
            most: MAX_BYTES.min(free_half()),
            pid: None,
            only: None,
        };
        Ok(from_file(path, &what, None)?.survey)
    };
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    let growth = diff(&before, &after);
    let mut output = Output::stdout(args.format);
    match output.format {
        Format::Ndjson => output.records(&growth)?,
        Format::Table => report::write_growth(output.text(), &growth, args.top)?,
    }
    output.finish()?;
    Ok(true)
}
