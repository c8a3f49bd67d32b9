//! The options for output formats, shared by all commands.

use std::net::{IpAddr, SocketAddr};

/// Output options of commands that only report.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct QueryOutput {
    /// Print the result as JSON (docs/json.md)
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Output options of commands that perform work.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct ActionOutput {
    #[command(flatten)]
    query: QueryOutput,

    /// Log progress to standard error
    #[arg(long, short, help_heading = "Output", conflicts_with = "quiet")]
    verbose: bool,

    /// Print only the output path
    #[arg(long, short, help_heading = "Output")]
    quiet: bool,
}

/// The option for a live view in browsers.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct ServeOptions {
    /// Show the fabric in browsers at http://ADDR/; PORT alone binds to 127.0.0.1, 0 chooses a free port
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = address)]
    pub serve: Option<SocketAddr>,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<u16>() {
        Ok(port) => Ok((IpAddr::from([127, 0, 0, 1]), port).into()),
        Err(_) => {
            text.parse().map_err(|_| "expected PORT or ADDR:PORT, for example 127.0.0.1:8080".to_owned())
        }
    }
}

/// Format and verbosity of the output.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutputStyle {
    /// Print the result as JSON.
    pub json: bool,
    /// Log progress to standard error.
    pub verbose: bool,
    /// Print only the output path.
    pub quiet: bool,
}

impl From<QueryOutput> for OutputStyle {
    fn from(options: QueryOutput) -> OutputStyle {
        OutputStyle { json: options.json, ..OutputStyle::default() }
    }
}

impl From<ActionOutput> for OutputStyle {
    fn from(options: ActionOutput) -> OutputStyle {
        OutputStyle { json: options.query.json, verbose: options.verbose, quiet: options.quiet }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_means_loopback() {
        assert_eq!(address("8080").unwrap().to_string(), "127.0.0.1:8080");
        assert_eq!(address("[::1]:80").unwrap().to_string(), "[::1]:80");
        for invalid in ["", "x", "127.0.0.1", "65536", "localhost:8080"] {
            assert!(address(invalid).is_err(), "{invalid}");
        }
    }
}
