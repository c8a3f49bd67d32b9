//! The live view on a terminal.

use super::{UserAction, ViewModel, ViewState, draw};
use crate::console::Failure;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::io::{self, IsTerminal};
use std::time::Duration;

/// Number of rows by which the page keys move.
const PAGE: isize = 10;

/// A terminal in raw mode that shows the view. Dropping it restores the terminal.
pub struct TerminalView {
    terminal: ratatui::DefaultTerminal,
    choice: ViewState,
}

impl TerminalView {
    /// Initialises the terminal.
    ///
    /// # Errors
    ///
    /// If standard input or output is not a terminal.
    pub fn open(is_plain: bool) -> Result<TerminalView, Failure> {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return Err(Failure::input("a live view requires a terminal on standard input and output"));
        }
        let terminal = ratatui::try_init().map_err(Failure::work)?;
        Ok(TerminalView { terminal, choice: ViewState { is_plain, ..ViewState::default() } })
    }

    pub fn show(&mut self, scene: &ViewModel) -> Result<(), Failure> {
        let choice = &self.choice;
        self.terminal.draw(|frame| draw(frame, scene, choice)).map(drop).map_err(Failure::from)
    }

    /// Waits at most `patience` for a key, and returns the request. Keys that only change the view redraw it.
    pub fn ask(&mut self, scene: &ViewModel, patience: Duration) -> Result<Option<UserAction>, Failure> {
        if !event::poll(patience)? {
            return Ok(None);
        }
        let asked = match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => asked(key, &mut self.choice, scene),
            _ => None,
        };
        self.show(scene)?;
        Ok(asked)
    }
}

impl Drop for TerminalView {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Returns the request for a key. Keys that change the view are applied to `choice`.
fn asked(key: KeyEvent, choice: &mut ViewState, scene: &ViewModel) -> Option<UserAction> {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(UserAction::Quit),
        KeyCode::Char('q') | KeyCode::Esc => Some(UserAction::Quit),
        KeyCode::Char(' ' | 'p') => Some(UserAction::Pause),
        KeyCode::Char('s') => Some(UserAction::Step),
        KeyCode::Char('d') => choice.selected(scene).map(UserAction::Link),
        KeyCode::Char('o') => {
            choice.reorder();
            None
        }
        KeyCode::Down | KeyCode::Char('j') => move_by(1, choice, scene),
        KeyCode::Up | KeyCode::Char('k') => move_by(-1, choice, scene),
        KeyCode::PageDown => move_by(PAGE, choice, scene),
        KeyCode::PageUp => move_by(-PAGE, choice, scene),
        KeyCode::Home => move_by(isize::MIN, choice, scene),
        KeyCode::End => move_by(isize::MAX, choice, scene),
        _ => None,
    }
}

fn move_by(rows: isize, choice: &mut ViewState, scene: &ViewModel) -> Option<UserAction> {
    choice.step(rows, scene);
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::{Order, PortRow};

    #[test]
    fn keys_do_what_the_footer_lists() {
        let scene = ViewModel { ports: vec![PortRow::default(); 3], ..ViewModel::default() };
        let mut choice = ViewState::default();
        let mut press = |code| asked(KeyEvent::new(code, KeyModifiers::NONE), &mut choice, &scene);
        assert_eq!(press(KeyCode::Char(' ')), Some(UserAction::Pause));
        assert_eq!(press(KeyCode::Char('s')), Some(UserAction::Step));
        assert_eq!((press(KeyCode::Down), press(KeyCode::Char('d'))), (None, Some(UserAction::Link(1))));
        assert_eq!((press(KeyCode::End), press(KeyCode::Char('d'))), (None, Some(UserAction::Link(2))));
        assert_eq!(
            (press(KeyCode::Home), press(KeyCode::Up), press(KeyCode::Char('d'))),
            (None, None, Some(UserAction::Link(0)))
        );
        assert_eq!((press(KeyCode::Char('x')), press(KeyCode::Char('o'))), (None, None));
        assert_eq!(press(KeyCode::Char('q')), Some(UserAction::Quit));
        assert_eq!(choice.order, Order::Load);
        let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(asked(ctrl_c, &mut choice, &scene), Some(UserAction::Quit));
        assert_eq!(
            asked(KeyEvent::new(KeyCode::Char('d'), KeyModifiers::NONE), &mut choice, &ViewModel::default()),
            None
        );
    }
}
