//! The outputs of a live view: the terminal, browsers, or both.

use super::interaction::UserAction;
use super::model::ViewModel;
use super::screen::TerminalView;
use super::web::WebView;
use crate::console::Failure;
use crate::interrupt::interrupted;
use std::time::Duration;

/// The terminal, the browsers, or both.
pub struct View<'a> {
    terminal: Option<TerminalView>,
    web: Option<&'a WebView>,
}

impl<'a> View<'a> {
    /// Opens the terminal if `on_terminal`; `web` is the server for browsers.
    ///
    /// # Errors
    ///
    /// If a terminal is requested and not available.
    pub fn open(on_terminal: bool, is_plain: bool, web: Option<&'a WebView>) -> Result<View<'a>, Failure> {
        let terminal = on_terminal.then(|| TerminalView::open(is_plain)).transpose()?;
        Ok(View { terminal, web })
    }

    /// Shows the contents on all outputs.
    pub fn show(&mut self, model: &ViewModel) -> Result<(), Failure> {
        if let Some(web) = self.web {
            web.show(model);
        }
        self.terminal.as_mut().map_or(Ok(()), |terminal| terminal.show(model))
    }

    /// Waits at most `timeout` for a request of a user.
    pub fn next_action(
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
