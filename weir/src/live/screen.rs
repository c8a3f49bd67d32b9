//! The live view on a terminal.

use super::draw::draw;
use super::interaction::{Colours, UserAction, ViewState};
use super::model::ViewModel;
use crate::console::Failure;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::io::{self, IsTerminal};
use std::time::Duration;

/// Number of rows by which the page keys move.
const PAGE_ROWS: isize = 10;

/// A terminal in raw mode that shows the view. Dropping it restores the terminal.
pub(super) struct TerminalView {
    terminal: ratatui::DefaultTerminal,
    view_state: ViewState,
}

impl TerminalView {
    /// Initialises the terminal.
    ///
    /// # Errors
    ///
    /// If standard input or output is not a terminal.
    pub(super) fn open(colours: Colours) -> Result<TerminalView, Failure> {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return Err(Failure::input("a live view requires a terminal on standard input and output"));
        }
        let terminal = ratatui::try_init().map_err(Failure::work)?;
        Ok(TerminalView { terminal, view_state: ViewState { colours, ..ViewState::default() } })
    }

    pub(super) fn show(&mut self, model: &ViewModel) -> Result<(), Failure> {
        let view_state = &self.view_state;
        self.terminal.draw(|frame| draw(frame, model, view_state)).map(drop).map_err(Failure::from)
    }

    /// Waits at most `timeout` for a key, and returns the request. Keys that only change the view redraw it.
    pub(super) fn next_action(
        &mut self,
        model: &ViewModel,
        timeout: Duration,
    ) -> Result<Option<UserAction>, Failure> {
        if !event::poll(timeout)? {
            return Ok(None);
        }
        let action = match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                action_for_key(key, &mut self.view_state, model)
            }
            _ => None,
        };
        self.show(model)?;
        Ok(action)
    }
}

impl Drop for TerminalView {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Returns the request for a key. Keys that change the view are applied to `view_state`.
fn action_for_key(key: KeyEvent, view_state: &mut ViewState, model: &ViewModel) -> Option<UserAction> {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(UserAction::Quit),
        KeyCode::Char('q') | KeyCode::Esc => Some(UserAction::Quit),
        KeyCode::Char(' ' | 'p') => Some(UserAction::Pause),
        KeyCode::Char('s') => Some(UserAction::Step),
        KeyCode::Char('d') => view_state.selected(model).map(UserAction::ToggleLink),
        KeyCode::Char('o') => {
            view_state.next_order();
            None
        }
        KeyCode::Down | KeyCode::Char('j') => move_by(1, view_state, model),
        KeyCode::Up | KeyCode::Char('k') => move_by(-1, view_state, model),
        KeyCode::PageDown => move_by(PAGE_ROWS, view_state, model),
        KeyCode::PageUp => move_by(-PAGE_ROWS, view_state, model),
        KeyCode::Home => move_by(isize::MIN, view_state, model),
        KeyCode::End => move_by(isize::MAX, view_state, model),
        _ => None,
    }
}

/// Moves the selection, which is no request to the command.
fn move_by(rows: isize, view_state: &mut ViewState, model: &ViewModel) -> Option<UserAction> {
    view_state.move_selection(rows, model);
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::PortRow;
    use crate::live::interaction::Order;

    #[test]
    fn keys_do_what_the_footer_lists() {
        let model = ViewModel { ports: vec![PortRow::default(); 3], ..ViewModel::default() };
        let mut view_state = ViewState::default();
        let mut press =
            |code| action_for_key(KeyEvent::new(code, KeyModifiers::NONE), &mut view_state, &model);
        assert_eq!(press(KeyCode::Char(' ')), Some(UserAction::Pause));
        assert_eq!(press(KeyCode::Char('s')), Some(UserAction::Step));
        assert_eq!(
            (press(KeyCode::Down), press(KeyCode::Char('d'))),
            (None, Some(UserAction::ToggleLink(1)))
        );
        assert_eq!((press(KeyCode::End), press(KeyCode::Char('d'))), (None, Some(UserAction::ToggleLink(2))));
        assert_eq!(
            (press(KeyCode::Home), press(KeyCode::Up), press(KeyCode::Char('d'))),
            (None, None, Some(UserAction::ToggleLink(0)))
        );
        assert_eq!((press(KeyCode::Char('x')), press(KeyCode::Char('o'))), (None, None));
        assert_eq!(press(KeyCode::Char('q')), Some(UserAction::Quit));
        assert_eq!(view_state.order, Order::Load);
        let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(action_for_key(ctrl_c, &mut view_state, &model), Some(UserAction::Quit));
        assert_eq!(
            action_for_key(
                KeyEvent::new(KeyCode::Char('d'), KeyModifiers::NONE),
                &mut view_state,
                &ViewModel::default()
            ),
            None
        );
    }
}
