//! The options for output formats, shared by all commands.

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
