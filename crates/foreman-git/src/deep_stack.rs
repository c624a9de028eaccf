//! Room for work that goes as deep as a hostile folder: a run can nest folders by the hundred, and the
//! runtime's threads have stacks of two mebibytes.

use crate::GitError;

/// Address space, of which only what is used is ever backed by memory.
const STACK: usize = 256 << 20;

/// Does `work` on a thread of its own whose stack is deep enough for the deepest folder that is entered.
pub(crate) fn on_deep_stack<T: Send>(
    work: impl FnOnce() -> Result<T, GitError> + Send,
) -> Result<T, GitError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("deep".to_owned())
            .stack_size(STACK)
            .spawn_scoped(scope, work)
            .map_err(GitError::io("cannot start a thread for", "deep folders"))?;
        match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
