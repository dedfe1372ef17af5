//! `ferroce export`: counters for Prometheus, or for a collector of OpenTelemetry.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::thread;
use std::time::{Instant, SystemTime};

use clap::Args;
use ops::watch::{Settings, Watch, metrics, sample_metrics};
use telemetry::{Endpoint, EndpointError, Format, MetricKind, Metrics, OtlpReceiver, Reach};

use crate::failure::Failure;
use crate::output::{print, tell};
use crate::sources::{Sources, Unread};

#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    sources: Sources,

    /// Print the metrics once, and end
    #[arg(long)]
    once: bool,

    /// Where to listen: `/metrics` is there. Port 0 takes a free one [default: 127.0.0.1:9879,
    /// and nowhere with --otlp]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "once")]
    listen: Option<SocketAddr>,

    /// Listen on an address that other hosts reach
    #[arg(long)]
    beyond_loopback: bool,

    /// Push to a receiver of OTLP/HTTP, such as http://127.0.0.1:4318
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,

    /// Seconds between pushes
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "otlp")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    otlp_every: u64,

    /// The most series of a scrape; those beyond are left out, and counted
    #[arg(long, value_name = "NUMBER", default_value_t = 200_000)]
    series_max: usize,

    /// Print OpenMetrics in place of Prometheus' text
    #[arg(long, requires = "once")]
    openmetrics: bool,
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  ferroce export --once                     # what Prometheus gets of this host
  ferroce export                            # http://127.0.0.1:9879/metrics
  ferroce export --from snapshots/ --once   # of what was saved of others
  ferroce export --from out/ --once         # of what `ferroce sim -o` wrote
  ferroce export --otlp http://127.0.0.1:4318 --otlp-every 10

Names and labels are those of rdma_exporter and node_exporter; see
docs/book/watch.md.";

/// Where Prometheus looks for an exporter of this kind.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9_879);

pub(crate) fn run(arguments: &Export) -> Result<(), Failure> {
    let mut exporter = Exporter::new(arguments);
    let receiver =
        arguments.otlp.as_deref().map(OtlpReceiver::new).transpose().map_err(|error| {
            Failure::new(format!("--otlp: {error}"))
                .hint("a collector that wants https has one of its own, or a sidecar, on this host")
        })?;
    if arguments.once
        && let Some(receiver) = &receiver
    {
        let metrics = exporter.scrape()?;
        push(receiver, &metrics).map_err(Failure::new)?;
        return print(&format!("{} series are at {}\n", metrics.len(), receiver.url()));
    }
    if arguments.once {
        let metrics = exporter.scrape()?;
        let format = if arguments.openmetrics { Format::OpenMetrics } else { Format::Prometheus };
        return print(&metrics.to_text(format));
    }
    // What is wrong with a folder is told now, and not at the first scrape.
    exporter.scrape()?;
    if let Some(receiver) = receiver {
        let every = Duration::from_secs(arguments.otlp_every);
        print(&format!("metrics go to {} every {} s\n", receiver.url(), every.as_secs()))?;
        if arguments.listen.is_none() {
            go_on_pushing(&mut exporter, &receiver, every);
        }
        let mut exporter = Exporter::new(arguments);
        thread::spawn(move || go_on_pushing(&mut exporter, &receiver, every));
    }
    let reach = if arguments.beyond_loopback { Reach::Anywhere } else { Reach::Loopback };
    let gather = move || exporter.scrape().unwrap_or_else(|failure| exporter.failed(&failure));
    let endpoint =
        Endpoint::serve(arguments.listen.unwrap_or(LISTEN), reach, gather).map_err(|error| {
            let hint = match &error {
                EndpointError::BeyondLoopback(_) => {
                    "say --beyond-loopback if they are to; there is no password"
                }
                EndpointError::Bind(..) => "choose another with --listen, such as 127.0.0.1:9880",
            };
            Failure::new(error.to_string()).hint(hint)
        })?;
    print(&format!("metrics are at http://{}/metrics\n", endpoint.address()))?;
    loop {
        thread::park();
    }
}

/// Pushes what there is now.
fn push(receiver: &OtlpReceiver, metrics: &Metrics) -> Result<(), String> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let resource = [
        ("service.name", "ferroce"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("host.name", &host),
    ];
    let bodies = metrics.to_otlp(&resource, SystemTime::now());
    receiver.push(&bodies).map_err(|error| error.to_string())
}

/// Pushes for ever. What goes wrong is said when it begins, and when it is over.
fn go_on_pushing(exporter: &mut Exporter, receiver: &OtlpReceiver, every: Duration) -> ! {
    let mut last: Option<String> = None;
    loop {
        let begin = Instant::now();
        let metrics = exporter.scrape().unwrap_or_else(|failure| exporter.failed(&failure));
        let now = push(receiver, &metrics).err();
        match (&last, &now) {
            (None, Some(why)) => tell(&format!("warning: {why}; what comes later says all of it")),
            (Some(_), None) => tell(&format!("{} takes them again", receiver.url())),
            _ => {}
        }
        last = now;
        thread::sleep(every.saturating_sub(begin.elapsed()));
    }
}

/// What stays from scrape to scrape: detectors, and errors.
struct Exporter {
    sources: Sources,
    series_max: usize,
    begin: Instant,
    watch: Watch,
    /// What could not be read, in all scrapes.
    errors: u64,
    unread: Unread,
}

impl Exporter {
    fn new(arguments: &Export) -> Self {
        let sources = arguments.sources.clone();
        let watch = Watch::new(Settings::default());
        let series_max = arguments.series_max;
        let (begin, unread) = (Instant::now(), Unread::default());
        Self { sources, series_max, begin, watch, errors: 0, unread }
    }

    fn scrape(&mut self) -> Result<Metrics, Failure> {
        let raw = self.sources.gather()?;
        let sample = raw.sample();
        self.watch.look(self.begin.elapsed(), &sample);
        self.errors += raw.notes.len() as u64;
        self.unread.tell(&raw.notes);
        let mut all = Metrics::bounded(self.series_max);
        // First, so that they are there whatever the bound.
        self.about(&mut all, raw.notes.is_empty());
        sample_metrics(&sample, self.watch.open(), &mut all);
        metrics(&raw, &mut all);
        Ok(all)
    }

    /// A scrape that gave nothing is told as one, so that an alert can ask for it.
    fn failed(&mut self, failure: &Failure) -> Metrics {
        self.errors += 1;
        tell(&failure.to_string());
        let mut all = Metrics::bounded(self.series_max);
        self.about(&mut all, false);
        all
    }

    fn about(&self, all: &mut Metrics, success: bool) {
        let help = "Files, and whole scrapes, whose counters could not be read.";
        all.add("rdma_scrape_errors_total", MetricKind::Counter, help, &[], self.errors);
        let help = "Whether all counters of this scrape could be read.";
        let labels = [("collector", "ferroce")];
        all.add(
            "rdma_scrape_collector_success",
            MetricKind::Gauge,
            help,
            &labels,
            u64::from(success),
        );
        let help = "Which Ferroce this is.";
        let labels = [("version", env!("CARGO_PKG_VERSION"))];
        all.add("ferroce_build_info", MetricKind::Gauge, help, &labels, 1);
    }
}
