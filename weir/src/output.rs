//! The options that say how a result is printed, the same in every command.

/// Options of commands that answer a question.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct QueryOutput {
    /// Print the result as JSON (docs/json.md)
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Options of commands that do something.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct ActionOutput {
    #[command(flatten)]
    answer: QueryOutput,

    /// Log progress to standard error
    #[arg(long, short, help_heading = "Output", conflicts_with = "quiet")]
    verbose: bool,

    /// Print nothing but the path of the output
    #[arg(long, short, help_heading = "Output")]
    quiet: bool,
}

/// The style in which a result is printed.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutputStyle {
    /// As JSON.
    pub json: bool,
    /// With more on standard error.
    pub verbose: bool,
    /// With as little as possible.
    pub quiet: bool,
}

impl From<QueryOutput> for OutputStyle {
    fn from(options: QueryOutput) -> OutputStyle {
        OutputStyle { json: options.json, ..OutputStyle::default() }
    }
}

impl From<ActionOutput> for OutputStyle {
    fn from(options: ActionOutput) -> OutputStyle {
        OutputStyle { json: options.answer.json, verbose: options.verbose, quiet: options.quiet }
    }
}
