//! A desk: a session bus, a screen, a home and a data directory of its own, and the app on it. The bus and
//! the screen belong to the test user on this machine; the app runs in the stage's world, as the engine and
//! its agents do in every suite, and is driven through a socket that a relay passes on into the world.

mod bus;
mod screen;
mod webdriver;

pub use bus::{Bus, Entry, Notice};
pub use screen::Screen;
pub use webdriver::Session;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use foreman_testkit::{Binaries, Product, Stage, eventually, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// Longest wait for something on the screen: the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(45);

/// A session bus that starts no service by itself, and that the test may join too when it is root. Its socket
/// lies in the user's own folder.
const BUS: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>ADDRESS</listen>
  <policy context="default">
    <allow user="*"/>
    <allow own="*"/>
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
  </policy>
</busconfig>
"#;

/// What somebody set who has been through the first run.
const SETTINGS: &str = r#"{"theme":"dark","notify":true,"editor":null,"terminal":null,"keep_in_tray":true,"first_run_done":true}"#;

/// Ports of drivers inside a world.
static PORT: AtomicU16 = AtomicU16::new(4_700);

/// Puts the app beside the bench's other binaries.
///
/// # Errors
/// It was not built.
pub fn install(stage: &Stage) -> Result<()> {
    let from = Binaries::find()?.folder().join("sdf");
    let to = stage.bench.program("sdf");
    fs::copy(&from, &to).with_context(|| format!("copy {}", from.display()))?;
    Ok(())
}

/// A process that ends, with all it started, when this drops.
#[derive(Debug)]
struct Process(Child);

impl Process {
    fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let log = fs::OpenOptions::new().create(true).append(true).open(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn();
        Ok(Self(child.with_context(|| {
            format!("start {:?}", command.get_program())
        })?))
    }

    fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let pid = self.pid();
        let below = own_descendants(pid);
        // Asked first: a screen removes its lock and its socket then.
        let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        let _ = eventually("it ended when asked", Duration::from_secs(2), || {
            !matches!(self.0.try_wait(), Ok(None))
        });
        for pid in below {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process's descendants but supervisors of runs and what these started: they outlive an app.
fn own_descendants(of: i32) -> Vec<i32> {
    let mut all = Vec::new();
    for child in foreman_testkit::children(of) {
        let name = fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
        if !name.starts_with("foreman") {
            all.push(child);
            all.extend(own_descendants(child));
        }
    }
    all
}

/// What is to be on a desk.
#[derive(Debug, Clone, Copy)]
pub struct Has {
    /// Somebody shows tray icons.
    pub tray_host: bool,
    /// Nobody has used the app here before.
    pub is_new: bool,
}

/// One desk. The app ends before its screen and its bus do.
#[derive(Debug)]
pub struct Desk<'a> {
    pub stage: &'a Stage,
    pub bus: Bus,
    home: PathBuf,
    runtime: PathBuf,
    data: PathBuf,
    folder: PathBuf,
    display: String,
    address: String,
    _screen: Process,
    _bus: Process,
}

impl<'a> Desk<'a> {
    /// With everything a desktop has.
    ///
    /// # Errors
    /// The bus or the screen did not come up.
    pub fn new(stage: &'a Stage) -> Result<Self> {
        Self::with(
            stage,
            Has {
                tray_host: true,
                is_new: false,
            },
        )
    }

    /// With what is wanted of it.
    ///
    /// # Errors
    /// As [`Desk::new`].
    pub fn with(stage: &'a Stage, has: Has) -> Result<Self> {
        let bench = &stage.bench;
        let folder = bench.scratch("desk")?;
        let [home, runtime, data] = ["home", "run", "data"].map(|name| folder.join(name));
        for path in [&home, &runtime, &data] {
            fs::create_dir(path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
            bench.own(path)?;
        }
        let git = fs::read(bench.home().join(".gitconfig"))?;
        bench.write(&home.join(".gitconfig"), git)?;

        if !has.is_new {
            let settings = home.join(".config/dev.foreman.sdf/settings.json");
            bench.write(&settings, SETTINGS)?;
        }

        let socket = runtime.join("bus");
        let address = format!("unix:path={}", socket.display());
        let config = folder.join("bus.conf");
        bench.write(&config, BUS.replace("ADDRESS", &address))?;
        let mut command = bench.command("dbus-daemon");
        command
            .args(["--nofork", "--nopidfile"])
            .arg(format!("--config-file={}", config.display()));
        let daemon = Process::start(&mut command, &folder.join("bus.log"))?;
        eventually("the session bus is up", PATIENCE, || {
            UnixStream::connect(&socket).is_ok()
        })?;
        let bus = Bus::join(&address, has.tray_host)?;

        let (screen, display) = screen(bench.command("Xvfb"), &folder.join("screen.log"))?;
        Ok(Self {
            stage,
            bus,
            home,
            runtime,
            data,
            folder,
            display,
            address,
            _screen: screen,
            _bus: daemon,
        })
    }

    /// The command line over the same data directory, as the same user.
    #[must_use]
    pub fn product(&self) -> Product<'a> {
        Product::in_world(&self.stage.bench, &self.stage.world)
            .with_data(&self.data)
            .with_variable("HOME", &self.home.display().to_string())
            .with_variable("XDG_RUNTIME_DIR", &self.runtime.display().to_string())
    }

    /// The user's home on this desk.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The data directory.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// A program with the variables of this desk's session, in the world.
    #[must_use]
    pub fn program(&self, program: &str) -> Command {
        let mut command = self.product().program(program);
        command
            .env("DISPLAY", &self.display)
            .env("DBUS_SESSION_BUS_ADDRESS", &self.address)
            .env("GDK_BACKEND", "x11")
            .env("NO_AT_BRIDGE", "1")
            .env("LIBGL_ALWAYS_SOFTWARE", "1")
            .env("WEBKIT_DISABLE_DMABUF_RENDERER", "1");
        command
    }

    /// Starts the app and waits until its window is there.
    ///
    /// # Errors
    /// It did not start; the message has what it said.
    pub fn app(&self, arguments: &[&str]) -> Result<App<'_>> {
        let port = PORT.fetch_add(1, Ordering::Relaxed);
        let log = self.folder.join("app.log");
        let socket = self.folder.join(format!("driver-{port}"));
        let mut driver = self.program("WebKitWebDriver");
        driver
            .arg(format!("--port={port}"))
            .env("TAURI_WEBVIEW_AUTOMATION", "true");
        let driver = Process::start(&mut driver, &log)?;
        let relay = self
            .stage
            .bench
            .program("fm-test-server")
            .display()
            .to_string();
        let mut relay = self.program(&relay);
        relay.arg("relay").arg(&socket).arg(port.to_string());
        let relay = Process::start(&mut relay, &log)?;
        eventually("the driver answers", PATIENCE, || {
            Session::is_ready(&socket)
        })
        .with_context(|| self.log())?;
        let arguments: Vec<String> = arguments.iter().map(|one| (*one).to_owned()).collect();
        let started = Instant::now();
        let session = Session::start(&socket, &self.stage.bench.program("sdf"), &arguments)
            .with_context(|| self.log())?;
        let app = App {
            desk: self,
            started,
            session,
            driver,
            _relay: relay,
        };
        until("the page is up", PATIENCE, || {
            let state = app
                .session
                .script("return document.querySelector('#main > *') !== null", &[]);
            Ok((state.ok() == Some(Value::Bool(true))).then_some(()))
        })
        .with_context(|| self.log())?;
        Ok(app)
    }

    /// Starts the app a second time, as a link or a launcher does, and gives its exit code.
    ///
    /// # Errors
    /// It did not end.
    pub fn again(&self, arguments: &[&str]) -> Result<i32> {
        let sdf = self.stage.bench.program("sdf").display().to_string();
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.join("again.log"))?;
        let mut command = self.program(&sdf);
        command.args(arguments).stdout(log.try_clone()?).stderr(log);
        let mut child = command.spawn().context("start the app again")?;
        let ended = until("the second instance has ended", PATIENCE, || {
            Ok(child.try_wait()?)
        });
        if ended.is_err() {
            for pid in foreman_testkit::descendants(child.id().cast_signed()) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        Ok(ended?.code().unwrap_or(-1))
    }

    /// The screen's number, as X programs take it.
    #[must_use]
    pub fn display(&self) -> &str {
        &self.display
    }

    /// What the app, its driver and the second instances wrote.
    #[must_use]
    pub fn log(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        format!("{}{}", read("app.log"), read("again.log"))
    }
}

fn screen(mut command: Command, log: &Path) -> Result<(Process, String)> {
    command
        .args([
            "-displayfd",
            "1",
            "-screen",
            "0",
            "1280x800x24",
            "-nolisten",
            "tcp",
            "-noreset",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(fs::File::create(log)?);
    let mut child = command.spawn().context("start Xvfb")?;
    let out = child.stdout.take().context("a pipe")?;
    let process = Process(child);
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line)?;
    let number = line.trim();
    ensure!(
        !number.is_empty(),
        "the screen did not come up: {}",
        fs::read_to_string(log).unwrap_or_default()
    );
    Ok((process, format!(":{number}")))
}

/// The app with its window.
#[derive(Debug)]
pub struct App<'a> {
    pub desk: &'a Desk<'a>,
    /// When its program was started.
    pub started: Instant,
    pub session: Session,
    driver: Process,
    _relay: Process,
}

/// Selector of what has this test id.
pub fn id(name: &str) -> String {
    format!("[data-testid=\"{name}\"]")
}

/// An element as an argument of a script.
fn handle(element: &str) -> Value {
    serde_json::json!({ "element-6066-11e4-a52e-4f735466cecf": element })
}

/// Selector of the field with this label.
pub fn field(label: &str) -> String {
    format!("//*[@id = //label[starts-with(normalize-space(), \"{label}\")]/@for]")
}

/// Selector of a button of the dialog that is open.
pub fn dialog_button(word: &str) -> String {
    format!("//*[@role='dialog' or @role='alertdialog']//button[normalize-space()=\"{word}\"]")
}

/// Selector of a button or link with exactly this text, or name.
pub fn named(name: &str) -> String {
    format!(
        "//*[self::button or self::a or @role='button' or @role='menuitem' or @role='tab']\
         [normalize-space()=\"{name}\" or @aria-label=\"{name}\"]"
    )
}

impl App<'_> {
    /// The app's own process, as the host numbers it.
    ///
    /// # Errors
    /// It is gone.
    pub fn pid(&self) -> Result<i32> {
        self.processes("sdf")
            .first()
            .copied()
            .context("the app is gone")
    }

    /// Processes of this name below the driver, as the host numbers them.
    pub fn processes(&self, name: &str) -> Vec<i32> {
        let below = foreman_testkit::descendants(self.driver.pid());
        let comm = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        below
            .into_iter()
            .filter(|pid| comm(pid).trim_end() == name)
            .collect()
    }

    /// Kills it with SIGKILL and waits until it is gone.
    ///
    /// # Errors
    /// It was gone before, or does not go.
    pub fn kill(&self) -> Result<()> {
        let pid = self.pid()?;
        kill(Pid::from_raw(pid), Signal::SIGKILL)?;
        eventually("the app is gone", PATIENCE, || !is_running(pid))
    }

    /// Waits until the app has ended by itself.
    ///
    /// # Errors
    /// It did not.
    pub fn ended(&self) -> Result<()> {
        eventually("the app has ended", PATIENCE, || {
            self.pid().map_or(true, |pid| !is_running(pid))
        })
    }

    /// Waits for an element and gives it.
    ///
    /// # Errors
    /// It did not come; the message has what the page shows instead.
    pub fn see(&self, selector: &str) -> Result<String> {
        self.within(&format!("{selector} is there"), || {
            Ok(self.session.find(selector).ok())
        })
    }

    /// Waits until nothing of this is there.
    ///
    /// # Errors
    /// It stays.
    pub fn gone(&self, selector: &str) -> Result<()> {
        self.within(&format!("{selector} is gone"), || {
            Ok(self.session.find(selector).is_err().then_some(()))
        })
    }

    /// Waits until an element can be clicked, and clicks it until the page says that it got the click: what is
    /// drawn anew or moves in between gets none, and is looked for again. An app that ends by the click got it.
    ///
    /// # Errors
    /// It never could be.
    pub fn click(&self, selector: &str) -> Result<()> {
        let ready = "const e = arguments[0]; window.__CLICKED__ = false; \
            if (e.disabled || e.getAttribute('aria-disabled') === 'true' || e.dataset.armed === 'false') return false; \
            e.addEventListener('click', () => { window.__CLICKED__ = true; }, { capture: true, once: true }); return true";
        let mut is_tried = false;
        self.within(&format!("{selector} is clicked"), || {
            let Ok(element) = self.session.find(selector) else {
                return Ok((is_tried && self.pid().is_err()).then_some(()));
            };
            if self.session.script(ready, &[handle(&element)]).ok() != Some(Value::Bool(true)) {
                return Ok(None);
            }
            is_tried = true;
            let clicked = self.session.click(&element);
            let got = self.session.script("return window.__CLICKED__", &[]);
            let is_done = got.map_or(clicked.is_ok(), |got| got == Value::Bool(true));
            Ok(is_done.then_some(()))
        })
    }

    /// Waits for a field and types until the text is in it, and nothing else.
    ///
    /// # Errors
    /// It never took the text.
    pub fn fill(&self, selector: &str, text: &str) -> Result<()> {
        let value = "return arguments[0].value ?? null";
        self.within(&format!("{selector} is filled in"), || {
            let Ok(element) = self.session.find(selector) else {
                return Ok(None);
            };
            let has = self.session.script(value, &[handle(&element)]);
            match has.ok().and_then(|has| has.as_str().map(str::to_owned)) {
                Some(has) if has == text => return Ok(Some(())),
                Some(has) if has.is_empty() => {}
                Some(_) => {
                    if self.session.clear(&element).is_err() {
                        return Ok(None);
                    }
                }
                None => return Ok(None),
            }
            // Whether it took the text, the next look says: a field that was drawn anew meanwhile did not.
            drop(self.session.type_into(&element, text));
            Ok(None)
        })
    }

    /// Waits until an element shows a text, and gives all that it shows.
    ///
    /// # Errors
    /// It does not; the message has what the page shows.
    pub fn says(&self, selector: &str, text: &str) -> Result<String> {
        self.within(&format!("{selector} says {text:?}"), || {
            let shown = self.text(selector);
            Ok(shown.filter(|shown| shown.contains(text)))
        })
    }

    /// Waits for an element and gives one of its `data-` values, by one look at the page: a handle on an
    /// element can outlive it, when a list is drawn anew.
    ///
    /// # Errors
    /// It did not come.
    pub fn datum(&self, selector: &str, name: &str) -> Result<String> {
        let script = "return document.querySelector(arguments[0])?.dataset[arguments[1]] ?? null";
        let arguments = [Value::from(selector), Value::from(name)];
        self.within(&format!("{selector} has {name}"), || {
            let value = self.session.script(script, &arguments)?;
            Ok(value.as_str().map(str::to_owned))
        })
    }

    /// What an element shows now, if it is there.
    pub fn text(&self, selector: &str) -> Option<String> {
        let script = "return document.querySelector(arguments[0])?.innerText ?? null";
        let text = self.session.script(script, &[Value::from(selector)]).ok()?;
        text.as_str().map(str::to_owned)
    }

    /// Everything that the page shows.
    pub fn shown(&self) -> String {
        let text = self.session.script("return document.body.innerText", &[]);
        text.ok()
            .and_then(|text| text.as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    /// Goes to a screen by its route.
    ///
    /// # Errors
    /// The page does not answer.
    pub fn go(&self, route: &str) -> Result<()> {
        let arguments = [Value::String(format!("#{route}"))];
        self.session
            .script("location.hash = arguments[0]", &arguments)
            .map(|_| ())
    }

    /// The route that is shown.
    pub fn route(&self) -> String {
        let hash = self.session.script("return location.hash", &[]);
        hash.ok()
            .and_then(|hash| hash.as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    /// Polls a level, and tells of the page when it never comes true.
    ///
    /// # Errors
    /// It did not.
    pub fn within<T>(&self, what: &str, level: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        match until(what, PATIENCE, level) {
            Ok(value) => Ok(value),
            Err(error) => {
                self.keep_picture(what);
                let shown: String = self.shown().chars().take(3_000).collect();
                bail!(
                    "{error:#}\non {}\n{shown}\n{}",
                    self.route(),
                    self.desk.log()
                )
            }
        }
    }

    /// Keeps a picture of the page when a folder for them is named by `FOREMAN_TEST_PICTURES`.
    pub fn keep_picture(&self, what: &str) {
        let Some(folder) = std::env::var_os("FOREMAN_TEST_PICTURES") else {
            return;
        };
        let name: String = what
            .chars()
            .map(|one| {
                if one.is_ascii_alphanumeric() {
                    one
                } else {
                    '-'
                }
            })
            .take(80)
            .collect();
        if let Ok(picture) = self.session.picture() {
            let _ = fs::create_dir_all(&folder);
            let bytes = base64::engine::general_purpose::STANDARD.decode(picture);
            let _ = fs::write(
                Path::new(&folder).join(format!("{name}.png")),
                bytes.unwrap_or_default(),
            );
        }
    }
}

impl Drop for App<'_> {
    fn drop(&mut self) {
        let app = self.pid().ok();
        let _ = self.session.end();
        if let Some(pid) = app {
            let ended = eventually("the app ended", Duration::from_secs(3), || !is_running(pid));
            if ended.is_err() {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }
}

/// True while a process runs; one that has ended and is not waited for does not.
fn is_running(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}
