//! Shows a live view on its outputs and collects the requests of its users.

use super::interaction::{Colours, UserAction};
use super::model::ViewModel;
use super::screen::TerminalView;
use super::web::WebView;
use crate::console::Failure;
use crate::interrupt::interrupted;
use std::time::Duration;

/// The outputs of a live view: the terminal, browsers, or both.
pub(crate) struct View<'a> {
    terminal: Option<TerminalView>,
    web: Option<&'a WebView>,
}

impl<'a> View<'a> {
    /// Opens the terminal unless `terminal` is `None`; `web` is the server for browsers.
    ///
    /// # Errors
    ///
    /// If the terminal cannot be opened.
    pub(crate) fn open(terminal: Option<Colours>, web: Option<&'a WebView>) -> Result<View<'a>, Failure> {
        let terminal = terminal.map(TerminalView::open).transpose()?;
        Ok(View { terminal, web })
    }

    /// Shows the contents on all outputs.
    pub(crate) fn show(&mut self, model: &ViewModel) -> Result<(), Failure> {
        if let Some(web) = self.web {
            web.show(model);
        }
        self.terminal.as_mut().map_or(Ok(()), |terminal| terminal.show(model))
    }

    /// Waits at most `timeout` for a request of a user. After Ctrl-C the request is to quit.
    pub(crate) fn next_action(
        &mut self,
        model: &ViewModel,
        timeout: Duration,
    ) -> Result<Option<UserAction>, Failure> {
        if interrupted() {
            return Ok(Some(UserAction::Quit));
        }
        // With a terminal, this waits for its keys, and only polls for requests from browsers.
        let web_timeout = if self.terminal.is_some() { Duration::ZERO } else { timeout };
        if let Some(action) = self.web.and_then(|web| web.next_action(model, web_timeout)) {
            return Ok(Some(action));
        }
        self.terminal.as_mut().map_or(Ok(None), |terminal| terminal.next_action(model, timeout))
    }
}
