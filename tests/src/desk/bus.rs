//! What a desktop has on its session bus, as far as the app speaks with it: a notification daemon and a
//! host of tray icons. Both write down what they hear, and can do what a person would.

use anyhow::{Context, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use zbus::message::Header;
use zbus::object_server::SignalEmitter;
use zbus::zvariant::{OwnedObjectPath, OwnedValue, Structure, Value};
use zbus::{Connection, interface};

/// One notification as it was asked for.
#[derive(Debug, Clone)]
pub struct Notice {
    /// Its number on the bus.
    pub id: u32,
    pub summary: String,
    pub body: String,
    /// Keys and labels, in turns.
    pub actions: Vec<String>,
}

#[derive(Debug, Default)]
struct Heard {
    notices: Vec<Notice>,
    /// Bus names of the tray icons that were registered, with their object paths.
    icons: Vec<(String, String)>,
}

struct Notifications(Arc<Mutex<Heard>>);

#[interface(name = "org.freedesktop.Notifications")]
impl Notifications {
    fn get_capabilities(&self) -> Vec<String> {
        ["actions", "body", "persistence"]
            .map(str::to_owned)
            .to_vec()
    }

    #[zbus(out_args("name", "vendor", "version", "spec_version"))]
    fn get_server_information(&self) -> (String, String, String, String) {
        let text = str::to_owned;
        (text("test"), text("test"), text("1"), text("1.2"))
    }

    #[expect(clippy::too_many_arguments, reason = "the interface has so many")]
    fn notify(
        &self,
        _app: String,
        _replaces: u32,
        _icon: String,
        summary: String,
        body: String,
        actions: Vec<String>,
        _hints: HashMap<String, OwnedValue>,
        _timeout: i32,
    ) -> u32 {
        let mut heard = self.0.lock().unwrap();
        let id = u32::try_from(heard.notices.len()).unwrap_or(0) + 1;
        heard.notices.push(Notice {
            id,
            summary,
            body,
            actions,
        });
        id
    }

    fn close_notification(&self, _id: u32) {}

    #[zbus(signal)]
    async fn action_invoked(emitter: &SignalEmitter<'_>, id: u32, key: &str) -> zbus::Result<()>;

    #[zbus(signal)]
    async fn notification_closed(
        emitter: &SignalEmitter<'_>,
        id: u32,
        reason: u32,
    ) -> zbus::Result<()>;
}

struct TrayHost(Arc<Mutex<Heard>>);

#[interface(name = "org.kde.StatusNotifierWatcher")]
impl TrayHost {
    fn register_status_notifier_item(&self, service: String, #[zbus(header)] header: Header<'_>) {
        let sender = header.sender().map(ToString::to_string).unwrap_or_default();
        let path = if service.starts_with('/') {
            service
        } else {
            "/StatusNotifierItem".to_owned()
        };
        self.0.lock().unwrap().icons.push((sender, path));
    }

    fn register_status_notifier_host(&self, _service: String) {}

    #[zbus(property)]
    fn registered_status_notifier_items(&self) -> Vec<String> {
        let heard = self.0.lock().unwrap();
        heard
            .icons
            .iter()
            .map(|(name, path)| format!("{name}{path}"))
            .collect()
    }

    #[zbus(property)]
    fn is_status_notifier_host_registered(&self) -> bool {
        true
    }

    #[zbus(property)]
    fn protocol_version(&self) -> i32 {
        0
    }
}

/// An entry of a tray menu, with those below it.
#[derive(Debug, Clone)]
pub struct Entry {
    pub id: i32,
    pub label: String,
    pub enabled: bool,
}

/// The daemons of one desk.
#[derive(Debug)]
pub struct Bus {
    runtime: tokio::runtime::Runtime,
    connection: Connection,
    heard: Arc<Mutex<Heard>>,
}

impl Bus {
    /// Takes their names on a session bus.
    ///
    /// # Errors
    /// The bus refused.
    pub fn join(address: &str, has_tray_host: bool) -> Result<Self> {
        let heard = Arc::new(Mutex::new(Heard::default()));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let mut builder = zbus::connection::Builder::address(address)?
            .serve_at(
                "/org/freedesktop/Notifications",
                Notifications(heard.clone()),
            )?
            .name("org.freedesktop.Notifications")?;
        if has_tray_host {
            builder = builder
                .serve_at("/StatusNotifierWatcher", TrayHost(heard.clone()))?
                .name("org.kde.StatusNotifierWatcher")?;
        }
        let connection = runtime
            .block_on(builder.build())
            .context("join the session bus")?;
        Ok(Self {
            runtime,
            connection,
            heard,
        })
    }

    /// Notifications so far.
    pub fn notices(&self) -> Vec<Notice> {
        self.heard.lock().unwrap().notices.clone()
    }

    /// Clicks a notification: its default action, or the first that it has.
    pub fn click(&self, notice: &Notice) -> Result<()> {
        let keys: Vec<&String> = notice.actions.iter().step_by(2).collect();
        let key = keys
            .iter()
            .find(|key| key.as_str() == "default")
            .or(keys.first())
            .context("a notification that cannot be clicked")?;
        let emitter = SignalEmitter::new(&self.connection, "/org/freedesktop/Notifications")?;
        self.runtime.block_on(Notifications::action_invoked(
            &emitter,
            notice.id,
            key.as_str(),
        ))?;
        self.runtime
            .block_on(Notifications::notification_closed(&emitter, notice.id, 2))?;
        Ok(())
    }

    /// How many tray icons were registered.
    pub fn icons(&self) -> usize {
        self.heard.lock().unwrap().icons.len()
    }

    fn icon(&self) -> Result<(String, String)> {
        let icon = self.heard.lock().unwrap().icons.last().cloned();
        icon.context("there is no tray icon")
    }

    fn menu_path(&self) -> Result<(String, String)> {
        let (name, path) = self.icon()?;
        let body = ("org.kde.StatusNotifierItem", "Menu");
        let properties = Some("org.freedesktop.DBus.Properties");
        let call = self.connection.call_method(
            Some(name.as_str()),
            path.as_str(),
            properties,
            "Get",
            &body,
        );
        let reply = self.runtime.block_on(call)?;
        let value: OwnedValue = reply.body().deserialize()?;
        let menu = OwnedObjectPath::try_from(value)?;
        Ok((name, menu.to_string()))
    }

    /// The tray menu as it is now: the entries that have a text, sub-menus included, in their order.
    pub fn menu(&self) -> Result<Vec<Entry>> {
        let (name, path) = self.menu_path()?;
        let interface = Some("com.canonical.dbusmenu");
        let body = (0_i32, -1_i32, Vec::<String>::new());
        let call = self.connection.call_method(
            Some(name.as_str()),
            path.as_str(),
            interface,
            "GetLayout",
            &body,
        );
        let reply = self.runtime.block_on(call)?;
        let body = reply.body();
        let layout: Structure<'_> = body.deserialize()?;
        let mut entries = Vec::new();
        for field in layout.fields() {
            collect(field, &mut entries);
        }
        Ok(entries)
    }

    /// Chooses an entry of the tray menu, as a click on it does.
    pub fn choose(&self, entry: &Entry) -> Result<()> {
        let (name, path) = self.menu_path()?;
        let interface = Some("com.canonical.dbusmenu");
        let body = (entry.id, "clicked", Value::from(0_i32), 0_u32);
        let call = self.connection.call_method(
            Some(name.as_str()),
            path.as_str(),
            interface,
            "Event",
            &body,
        );
        self.runtime.block_on(call)?;
        Ok(())
    }
}

/// A node of a menu's layout is `(id, properties, children)`.
fn collect(value: &Value<'_>, entries: &mut Vec<Entry>) {
    match value {
        Value::Value(inner) => collect(inner, entries),
        Value::Array(children) => {
            for child in children.iter() {
                collect(child, entries);
            }
        }
        Value::Structure(node) => {
            let [Value::I32(id), Value::Dict(properties), children] = node.fields() else {
                return;
            };
            let text: Option<String> = properties.get::<_, String>(&"label").ok().flatten();
            let enabled: Option<bool> = properties.get::<_, bool>(&"enabled").ok().flatten();
            if let Some(label) = text.filter(|label| !label.is_empty()) {
                let enabled = enabled.unwrap_or(true);
                entries.push(Entry {
                    id: *id,
                    label: label.replace('_', ""),
                    enabled,
                });
            }
            collect(children, entries);
        }
        _ => {}
    }
}
