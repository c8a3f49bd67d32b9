//! The options that say how a result is printed, the same in every command.

/// Options of commands that answer a question.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Answer {
    /// Print the result as JSON (docs/json.md)
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Options of commands that do something.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Output {
    #[command(flatten)]
    answer: Answer,

    /// Log progress to standard error
    #[arg(long, short, help_heading = "Output", conflicts_with = "quiet")]
    verbose: bool,

    /// Print nothing but the path of the output
    #[arg(long, short, help_heading = "Output")]
    quiet: bool,
}

/// The style in which a result is printed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// As JSON.
    pub json: bool,
    /// With more on standard error.
    pub verbose: bool,
    /// With as little as possible.
    pub quiet: bool,
}

impl From<Answer> for Style {
    fn from(options: Answer) -> Style {
        Style { json: options.json, ..Style::default() }
    }
}

impl From<Output> for Style {
    fn from(options: Output) -> Style {
        Style { json: options.answer.json, verbose: options.verbose, quiet: options.quiet }
    }
}
