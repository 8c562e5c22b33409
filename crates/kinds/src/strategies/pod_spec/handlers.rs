//! Probes and lifecycle hooks: exactly one handler, and valid periods.

use object::names;

use super::super::fields::{Field, IntOrText};

pub fn validate_probes(container: Field<'_>, grace: Option<i64>) {
    let (liveness, readiness, startup) =
        (container.field("livenessProbe"), container.field("readinessProbe"), container.field("startupProbe"));
    validate_once(liveness, grace);
    if readiness.is_set() {
        validate_probe(readiness, grace);
        let period = readiness.field("terminationGracePeriodSeconds");
        if period.is_set() {
            period.invalid("must not be set for readinessProbes");
        }
    }
    validate_once(startup, grace);
}

/// Liveness and startup probes have a success threshold of one.
fn validate_once(probe: Field<'_>, grace: Option<i64>) {
    if probe.is_set() {
        validate_probe(probe, grace);
        let threshold = probe.field("successThreshold");
        if threshold.int_or(0) != 1 {
            threshold.invalid_as(threshold.int_or(0), "must be 1");
        }
    }
}

fn validate_probe(probe: Field<'_>, grace: Option<i64>) {
    validate_handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], grace);
    for period in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        probe.field(period).non_negative();
    }
    probe.field("terminationGracePeriodSeconds").positive();
}

pub fn validate_lifecycle(lifecycle: Field<'_>, grace: Option<i64>, os: Field<'_>) {
    for hook in ["postStart", "preStop"] {
        if lifecycle.field(hook).is_set() {
            validate_handler(lifecycle.field(hook), &["exec", "httpGet", "tcpSocket", "sleep"], grace);
        }
    }
    let signal = lifecycle.field("stopSignal");
    if signal.is_set() {
        match os.field("name").text() {
            _ if !os.is_set() => signal.forbidden("may not be set for containers with empty `spec.os.name`"),
            "windows" => signal.one_of(&["SIGKILL", "SIGTERM"]),
            "linux" => validate_linux_signal(signal),
            _ => {}
        }
    }
}

fn validate_handler<'a>(at: Field<'a>, kinds: &[&'static str], grace: Option<i64>) {
    let mut chosen = kinds.iter().map(|kind| at.field(kind)).filter(|handler| handler.is_set());
    let Some(_) = chosen.next() else {
        return at.required("must specify a handler type");
    };
    let mut seen = false;
    for kind in kinds {
        let handler = at.field(kind);
        if !handler.is_set() {
            continue;
        }
        if std::mem::replace(&mut seen, true) {
            handler.forbidden("may not specify more than 1 handler type");
            continue;
        }
        match *kind {
            "exec" => {
                handler.field("command").require();
            }
            "httpGet" => validate_http_get(handler),
            "tcpSocket" => handler.field("port").port_or_name(),
            "grpc" => {
                let port = handler.field("port");
                port.problems_as_int(port.int_or(0), names::port_number(port.int_or(0)));
            }
            _ => validate_sleep(handler, grace),
        }
    }
}

fn validate_http_get(action: Field<'_>) {
    action.field("path").require();
    action.field("port").port_or_name();
    action.field("scheme").one_of(&["HTTP", "HTTPS"]);
    for header in action.field("httpHeaders").items() {
        let name = header.field("name").text();
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            action.field("httpHeaders").invalid_as(
                name,
                names::regex_message(
                    "a valid HTTP header must consist of alphanumeric characters or '-'",
                    "[-A-Za-z0-9]+",
                    &["X-Header-Name"],
                ),
            );
        }
    }
}

fn validate_sleep(sleep: Field<'_>, grace: Option<i64>) {
    let seconds = sleep.field("seconds").int_or(0);
    if let Some(grace) = grace
        && (seconds < 0 || seconds > grace)
    {
        sleep
            .invalid_as(seconds, format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})"));
    }
}

impl Field<'_> {
    /// A port, by number or by the name a container gives it.
    pub fn port_or_name(self) {
        match self.int_or_text() {
            Some(IntOrText::Text(name)) => self.problems(names::port_name(name)),
            Some(IntOrText::Int(number)) => self.problems(names::port_number(number)),
            None => self.problems_as_int(0, names::port_number(0)),
        }
    }

    pub fn problems_as_int(self, value: i64, problems: Vec<String>) {
        for problem in problems {
            self.invalid_as(value, problem);
        }
    }
}

const LINUX_SIGNALS: [&str; 35] = [
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGRTMIN",
];

fn real_time_signals() -> impl Iterator<Item = String> {
    let above = (1..=15).map(|n| format!("SIGRTMIN+{n}"));
    let below = (1..=14).rev().map(|n| format!("SIGRTMAX-{n}"));
    above.chain(below).chain(["SIGRTMAX".to_owned()])
}

fn validate_linux_signal(signal: Field<'_>) {
    if LINUX_SIGNALS.contains(&signal.text()) || real_time_signals().any(|s| s == signal.text()) {
        return;
    }
    let mut all: Vec<String> = LINUX_SIGNALS.iter().map(|s| (*s).to_owned()).chain(real_time_signals()).collect();
    all.sort_unstable();
    signal.not_supported(&all.iter().map(String::as_str).collect::<Vec<_>>());
}
