//! Where the data directory and the sockets are, from the environment.

use crate::HostOptions;
use foreman_domain::{Code, Failure};
use std::ffi::OsString;
use std::path::PathBuf;

/// The engine's places, as this process's environment names them.
///
/// # Errors
/// [`Code::Environment`] when there is neither a data directory nor a home, or a relative one.
pub fn from_environment() -> Result<HostOptions, Failure> {
    options(|name| std::env::var_os(name))
}

/// The same with given variables.
///
/// # Errors
/// As [`from_environment`].
pub fn options(variable: impl Fn(&str) -> Option<OsString>) -> Result<HostOptions, Failure> {
    let absolute = |name: &str| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let given = variable("FOREMAN_DATA_DIR")
        .filter(|value| !value.is_empty())
        .map(PathBuf::from);
    let data_dir = match given {
        // It would be another one in every folder, and its runs would seem to be gone.
        Some(path) if !path.is_absolute() => {
            return Err(Failure::new(
                Code::Environment,
                format!("FOREMAN_DATA_DIR is a relative path: {}", path.display()),
            )
            .hint("Set it to an absolute path, outside of any repository."));
        }
        Some(path) => path,
        None => absolute("XDG_DATA_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
            .map(|base| base.join("foreman"))
            .ok_or_else(|| {
                Failure::new(
                    Code::Environment,
                    "there is no home directory to keep data in",
                )
                .hint("Set HOME, or FOREMAN_DATA_DIR to a directory of your own.")
            })?,
    };
    Ok(HostOptions {
        data_dir,
        runtime_dir: absolute("XDG_RUNTIME_DIR").filter(|path| path.is_dir()),
        shim_program: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn data_dir(variables: &[(&str, &str)]) -> Result<PathBuf, Failure> {
        options(|name| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| OsString::from(value))
        })
        .map(|options| options.data_dir)
    }

    #[test]
    fn the_data_directory_follows_the_environment() {
        let home = ("HOME", "/h");
        assert_eq!(
            data_dir(&[home]).unwrap(),
            Path::new("/h/.local/share/foreman")
        );
        assert_eq!(
            data_dir(&[home, ("XDG_DATA_HOME", "/x")]).unwrap(),
            Path::new("/x/foreman")
        );
        assert_eq!(
            data_dir(&[home, ("FOREMAN_DATA_DIR", "/f")]).unwrap(),
            Path::new("/f")
        );
        // The base directory specification: relative values are ignored.
        assert_eq!(
            data_dir(&[home, ("XDG_DATA_HOME", "x")]).unwrap(),
            Path::new("/h/.local/share/foreman")
        );
        assert_eq!(data_dir(&[]).unwrap_err().code, Code::Environment);
        let relative = data_dir(&[home, ("FOREMAN_DATA_DIR", "f")]).unwrap_err();
        assert_eq!(relative.code, Code::Environment);
    }
}
