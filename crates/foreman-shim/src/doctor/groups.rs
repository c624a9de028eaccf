//! Control groups: reported, not required. Without one, bounds are kept by process limits and a watchdog.

use super::WallFinding;
use crate::shim::where_bounds_are_kept;
use foreman_domain::Wall;

pub(super) fn finding() -> WallFinding {
    let (holds, detail, remedy) = match where_bounds_are_kept() {
        Ok(detail) => (true, detail, None),
        Err(why) => (
            false,
            format!(
                "{why}; bounds are kept by process limits and a watchdog: a run is paused a moment after \
                 it reached one"
            ),
            Some(
                "Nothing to do. Where systemd delegates memory and pids to user sessions on cgroup v2, \
                 the kernel enforces bounds."
                    .to_owned(),
            ),
        ),
    };
    let wall = Wall::Cgroup;
    WallFinding {
        wall,
        holds,
        required: wall.is_required(),
        detail,
        remedy,
    }
}
