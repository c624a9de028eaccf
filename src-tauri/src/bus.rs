//! The session bus: who is on it, and notifications over it.
//!
//! Everything here works without a bus and without anybody on it: then there is no tray host, and
//! nothing shows notifications. A call that has no answer in time counts as none.

use crate::notice::Notice;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::timeout;
use zbus::names::BusName;
use zbus::zvariant::Value;
use zbus::{Connection, fdo};

/// Who shows icons of apps in a panel.
const TRAY_HOST: &str = "org.kde.StatusNotifierWatcher";
/// Who shows notifications.
const NOTIFIER: &str = "org.freedesktop.Notifications";
/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The session bus, once it was reached.
#[derive(Debug, Default)]
pub struct Bus(Mutex<Option<Connection>>);

#[zbus::proxy(
    interface = "org.freedesktop.Notifications",
    default_service = "org.freedesktop.Notifications",
    default_path = "/org/freedesktop/Notifications",
    gen_blocking = false
)]
trait Notifications {
    #[expect(clippy::too_many_arguments, reason = "the interface is the desktop's")]
    fn notify(
        &self,
        app_name: &str,
        replaces_id: u32,
        app_icon: &str,
        summary: &str,
        body: &str,
        actions: &[&str],
        hints: HashMap<&str, Value<'_>>,
        expire_timeout: i32,
    ) -> zbus::Result<u32>;

    fn get_capabilities(&self) -> zbus::Result<Vec<String>>;

    #[zbus(signal)]
    fn action_invoked(&self, id: u32, action_key: String) -> zbus::Result<()>;
}

impl Bus {
    async fn connection(&self) -> zbus::Result<Connection> {
        let mut known = self.0.lock().await;
        if let Some(connection) = &*known {
            return Ok(connection.clone());
        }
        let connection = in_time(Connection::session()).await?;
        *known = Some(connection.clone());
        Ok(connection)
    }

    /// True when a panel shows icons of apps.
    pub async fn has_tray_host(&self) -> bool {
        self.has_owner(TRAY_HOST).await.unwrap_or(false)
    }

    /// True when somebody shows notifications, or would be started for it.
    pub async fn can_notify(&self) -> bool {
        if self.has_owner(NOTIFIER).await.unwrap_or(false) {
            return true;
        }
        self.can_be_started(NOTIFIER).await.unwrap_or(false)
    }

    async fn has_owner(&self, name: &'static str) -> zbus::Result<bool> {
        let connection = self.connection().await?;
        in_time(async {
            let bus = fdo::DBusProxy::new(&connection).await?;
            Ok(bus.name_has_owner(BusName::try_from(name)?).await?)
        })
        .await
    }

    async fn can_be_started(&self, name: &str) -> zbus::Result<bool> {
        let connection = self.connection().await?;
        in_time(async {
            let bus = fdo::DBusProxy::new(&connection).await?;
            let names = bus.list_activatable_names().await?;
            Ok(names.iter().any(|known| known.as_str() == name))
        })
        .await
    }

    /// Shows a notification; gives its number, by which a click names it.
    ///
    /// # Errors
    /// When nobody shows it.
    pub async fn notify(&self, notice: &Notice) -> zbus::Result<u32> {
        let connection = self.connection().await?;
        in_time(async {
            let notifications = NotificationsProxy::new(&connection).await?;
            let can = notifications.get_capabilities().await?;
            let body = match can.iter().any(|name| name == "body-markup") {
                true => escape(&notice.body),
                false => notice.body.clone(),
            };
            let hints = HashMap::from([("desktop-entry", Value::from("sdf"))]);
            let actions = ["default", "Open"];
            notifications
                .notify("SDF", 0, "sdf", &notice.summary, &body, &actions, hints, -1)
                .await
        })
        .await
    }

    /// The numbers of notifications that are clicked from now on; also those of other apps.
    ///
    /// # Errors
    /// Where there is no bus.
    pub async fn clicks(&self) -> zbus::Result<BoxStream<'static, u32>> {
        let connection = self.connection().await?;
        in_time(async {
            let notifications = NotificationsProxy::new(&connection).await?;
            Ok(numbers(notifications.receive_action_invoked().await?).boxed())
        })
        .await
    }
}

fn numbers(signals: ActionInvokedStream) -> impl Stream<Item = u32> {
    signals.filter_map(|signal| {
        let number = signal.args().ok().map(|arguments| arguments.id);
        std::future::ready(number)
    })
}

async fn in_time<T>(asked: impl Future<Output = zbus::Result<T>>) -> zbus::Result<T> {
    timeout(PATIENCE, asked)
        .await
        .unwrap_or_else(|_| Err(zbus::Error::Failure("no answer in time".into())))
}

/// Text as it stands in the markup of a notification's body.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            character => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_never_markup() {
        assert_eq!(
            escape("<a href=\"x\">&amp;</a>"),
            "&lt;a href=\"x\"&gt;&amp;amp;&lt;/a&gt;"
        );
    }
}
