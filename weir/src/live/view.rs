//! The outputs of a live view: the terminal, browsers, or both.

use super::{TerminalView, UserAction, ViewModel, WebView};
use crate::console::Failure;
use crate::interrupt::interrupted;
use std::time::Duration;

/// The terminal, the browsers, or both.
pub struct View<'a> {
    screen: Option<TerminalView>,
    web: Option<&'a WebView>,
}

impl<'a> View<'a> {
    /// Opens the terminal if `on_terminal`; `web` is the server for browsers.
    ///
    /// # Errors
    ///
    /// If a terminal is requested and not available.
    pub fn open(on_terminal: bool, is_plain: bool, web: Option<&'a WebView>) -> Result<View<'a>, Failure> {
        let screen = on_terminal.then(|| TerminalView::open(is_plain)).transpose()?;
        Ok(View { screen, web })
    }

    /// Shows the contents on all outputs.
    pub fn show(&mut self, scene: &ViewModel) -> Result<(), Failure> {
        if let Some(web) = self.web {
            web.show(scene);
        }
        self.screen.as_mut().map_or(Ok(()), |screen| screen.show(scene))
    }

    /// Waits at most `patience` for a request of a user.
    pub fn ask(&mut self, scene: &ViewModel, patience: Duration) -> Result<Option<UserAction>, Failure> {
        if interrupted() {
            return Ok(Some(UserAction::Quit));
        }
        // With a terminal, the wait is for its keys; requests from browsers are checked in between.
        let alone = if self.screen.is_some() { Duration::ZERO } else { patience };
        if let Some(ask) = self.web.and_then(|web| web.ask(scene, alone)) {
            return Ok(Some(ask));
        }
        self.screen.as_mut().map_or(Ok(None), |screen| screen.ask(scene, patience))
    }
}
