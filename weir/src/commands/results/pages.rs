//! The Markdown pages that `weir results` updates: one file, or all in a directory.

use super::super::files::{open_output, read};
use crate::console::Failure;
use std::path::{Path, PathBuf};
use weir_report::files::MODE_PUBLIC;
use weir_report::output::OutputFile;
use weir_report::papers::markdown::{self, ExistingSection};

pub(super) struct Pages(Vec<Page>);

struct Page {
    path: PathBuf,
    text: String,
    output: OutputFile,
}

impl Pages {
    /// Opens the pages. The first one of a directory, by name, gets the sections that no page has: its README.md.
    pub(super) fn open(docs: &Path) -> Result<Pages, Failure> {
        let invalid = |reason: String| Failure::Input(format!("--docs {}: {reason}", docs.display()));
        let mut paths = vec![docs.to_owned()];
        if docs.is_dir() {
            let entries = docs.read_dir().map_err(|error| invalid(error.to_string()))?;
            paths = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
            paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
            paths.sort();
        }
        if paths.is_empty() {
            return Err(invalid("has no page (*.md)".to_owned()));
        }
        let open = |path: PathBuf| {
            let (text, output) = (read(&path)?, open_output("--docs", &path)?);
            Ok(Page { path, text, output })
        };
        Ok(Pages(paths.into_iter().map(open).collect::<Result<_, Failure>>()?))
    }

    /// Reads the pages again, so that changes made during the runs are preserved.
    pub(super) fn reload(&mut self) -> Result<(), Failure> {
        for page in &mut self.0 {
            page.text = read(&page.path)?;
        }
        Ok(())
    }

    /// Replaces the content of a section on the page that has it.
    pub(super) fn replace(
        &mut self,
        id: &str,
        title: &str,
        content: impl FnOnce(ExistingSection<'_>) -> String,
    ) -> Result<(), Failure> {
        let index = self.0.iter().position(|page| markdown::has_section(&page.text, id)).unwrap_or(0);
        let page = &mut self.0[index];
        let content = content(ExistingSection::find(&page.text, id));
        page.text = markdown::replace_section(&page.text, id, title, &content)
            .map_err(|reason| Failure::Input(format!("{}: {reason}", page.path.display())))?;
        Ok(())
    }

    /// Writes the pages.
    pub(super) fn write(self) -> Result<(), Failure> {
        for Page { path, text, output } in self.0 {
            let failed = |error| Failure::work(format!("{}: {error}", path.display()));
            output.write(text.as_bytes(), MODE_PUBLIC).map_err(failed)?;
        }
        Ok(())
    }
}
