//! Client of a testbed's supervisor; starts it if it is not running.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use async_trait::async_trait;
use provisioners::process::forward::NetworkFault;
use provisioners::process::{ProcessReport, Processes};
use provisioners::{Condition, Error, Forward, Machine, Output, Provisioner};
use tokio::time::Instant;

use crate::expose::{Exposure, ExposureReport};
use crate::hint::Hint;
use crate::place::TestbedDir;
use crate::supervisor::protocol::{Answer, Request};
use crate::supervisor::{FileLock, socket};

const START_TIMEOUT: Duration = Duration::from_secs(10);
const STOP_TIMEOUT: Duration = Duration::from_secs(40);
const POLL: Duration = Duration::from_millis(5);

/// A running supervisor. Machines are processes of this host, so files are accessed directly.
#[derive(Clone)]
pub struct SupervisorClient {
    place: TestbedDir,
}

impl SupervisorClient {
    /// Returns `None` if no supervisor is running.
    pub async fn find(place: &TestbedDir) -> anyhow::Result<Option<Self>> {
        match socket::connect(&place.socket()).await {
            Ok(_) => Ok(Some(Self { place: place.clone() })),
            Err(_) => Ok(None),
        }
    }

    pub async fn running(place: &TestbedDir) -> anyhow::Result<Self> {
        let found = Self::find(place).await?;
        found.with_context(|| {
            format!(
                "the testbed {} in {} is not running; `{}` starts it",
                place.name(),
                place.home().display(),
                place.hint(&Hint::Up)
            )
        })
    }

    /// Returns the running supervisor, or starts one that outlives this process.
    pub async fn ensure(place: &TestbedDir, program: &Path) -> anyhow::Result<Self> {
        if let Some(found) = Self::find(place).await? {
            return Ok(found);
        }
        std::fs::create_dir_all(place.logs()).with_context(|| format!("cannot create {}", place.logs().display()))?;
        let log_path = place.log_of("supervisor");
        let log = File::create(&log_path).with_context(|| format!("cannot write {}", log_path.display()))?;
        let mut command = Command::new(program);
        command.args(supervise_arguments(place));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).current_dir("/");
        let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if let Some(found) = Self::find(place).await? {
                return Ok(found);
            }
            let ended = child.try_wait().context("cannot check the supervisor process")?;
            if ended.is_some() || Instant::now() >= deadline {
                let said = std::fs::read_to_string(&log_path).unwrap_or_default();
                bail!("the supervisor did not start: {}", said.trim());
            }
            tokio::time::sleep(POLL).await;
        }
    }

    pub async fn pid(&self) -> anyhow::Result<u32> {
        match self.ask(&Request::Hello).await? {
            Answer::Hello { pid, .. } => Ok(pid),
            other => bail!("unexpected answer {other:?}"),
        }
    }

    pub async fn reports(&self) -> anyhow::Result<Vec<ProcessReport>> {
        match self.ask(&Request::Reports).await? {
            Answer::Reports { reports } => Ok(reports),
            other => bail!("unexpected answer {other:?}"),
        }
    }

    pub async fn kill(&self, name: &str) -> Result<(), Error> {
        self.do_it(Request::Kill { name: name.to_owned() }).await
    }

    pub async fn set_wire(&self, name: &str, forward: &str, wire: NetworkFault) -> Result<(), Error> {
        self.do_it(Request::SetWire { name: name.to_owned(), forward: forward.to_owned(), wire }).await
    }

    pub async fn snapshot(&self, name: &str) -> Result<(), Error> {
        self.do_it(Request::Snapshot { name: name.to_owned() }).await
    }

    pub async fn expose(&self, exposure: Exposure) -> Result<(), Error> {
        self.do_it(Request::Expose { exposure }).await
    }

    pub async fn unexpose(&self, name: &str) -> Result<(), Error> {
        self.do_it(Request::Unexpose { name: name.to_owned() }).await
    }

    pub async fn exposures(&self) -> anyhow::Result<Vec<ExposureReport>> {
        match self.ask(&Request::Exposures).await? {
            Answer::Exposures { exposures } => Ok(exposures),
            other => bail!("unexpected answer {other:?}"),
        }
    }

    /// Stops all machines, and returns when the supervisor has exited.
    pub async fn shut_down(&self) -> anyhow::Result<()> {
        let pid = self.pid().await?;
        self.do_it(Request::Shutdown).await?;
        let deadline = Instant::now() + STOP_TIMEOUT;
        // A zombie process has no command line.
        let is_there = || std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
        while is_there() || FileLock::try_hold(&self.place.lock_file())?.is_none() {
            if Instant::now() >= deadline {
                bail!("the supervisor did not exit; see {}", self.place.log_of("supervisor").display());
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    async fn do_it(&self, request: Request) -> Result<(), Error> {
        self.ask(&request).await.map(drop)
    }

    async fn ask(&self, request: &Request) -> Result<Answer, Error> {
        let lost = |why: String| Error::Host {
            problem: format!("the supervisor of the testbed {} does not answer: {why}", self.place.name()),
            remedy: format!("start it again with `{}`", self.place.hint(&Hint::Up)),
        };
        let mut stream = socket::connect(&self.place.socket()).await.map_err(|error| lost(error.to_string()))?;
        socket::send(&mut stream, request).await.map_err(|error| lost(error.to_string()))?;
        let answer = socket::receive::<Answer>(&mut stream).await.map_err(|error| lost(error.to_string()))?;
        answer.ok_or_else(|| lost("it closed the connection".to_owned()))?.good()
    }

    /// Used for files only.
    fn files(&self) -> Processes {
        Processes::new(self.place.data(), self.place.logs())
    }
}

#[async_trait]
impl Provisioner for SupervisorClient {
    fn name(&self) -> &'static str {
        "process"
    }

    async fn create(&self, machine: &Machine) -> Result<(), Error> {
        self.do_it(Request::Create { machine: machine.clone() }).await
    }

    async fn start(&self, machine: &str) -> Result<(), Error> {
        self.do_it(Request::Start { name: machine.to_owned() }).await
    }

    async fn stop(&self, machine: &str) -> Result<(), Error> {
        self.do_it(Request::Stop { name: machine.to_owned() }).await
    }

    async fn delete(&self, machine: &str) -> Result<(), Error> {
        self.do_it(Request::Delete { name: machine.to_owned() }).await
    }

    async fn condition(&self, machine: &str) -> Result<Condition, Error> {
        match self.ask(&Request::Condition { name: machine.to_owned() }).await? {
            Answer::Condition { condition } => Ok(condition),
            other => Err(Error::Failed { doing: format!("look at {machine}"), why: format!("answered {other:?}") }),
        }
    }

    async fn exec(&self, machine: &str, command: &[String], stdin: Option<Vec<u8>>) -> Result<Output, Error> {
        self.files().exec(machine, command, stdin).await
    }

    async fn push_file(&self, machine: &str, from: &Path, to: &str) -> Result<(), Error> {
        self.files().push_file(machine, from, to).await
    }

    async fn read_file(&self, machine: &str, path: &str) -> Result<Vec<u8>, Error> {
        self.files().read_file(machine, path).await
    }

    async fn forward(&self, machine: &str, forward: &Forward) -> Result<(), Error> {
        self.do_it(Request::Forward { name: machine.to_owned(), forward: forward.clone() }).await
    }

    async fn unforward(&self, machine: &str, forward: &str) -> Result<(), Error> {
        self.do_it(Request::Unforward { name: machine.to_owned(), forward: forward.to_owned() }).await
    }
}

/// Returns the arguments that start the supervisor of a testbed.
pub fn supervise_arguments(place: &TestbedDir) -> Vec<std::ffi::OsString> {
    let home = place.home().as_os_str().to_owned();
    vec!["supervise".into(), "--home".into(), home, "--name".into(), place.name().into()]
}

/// Returns the path of this program, which all processes of a testbed run.
pub fn this_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot determine the path of this program")
}
