//! A live view of a fabric: its contents ([`ViewModel`]), their rendering on a terminal ([`draw`](draw::draw)) and in
//! browsers ([`WebView`]), and the keys.
//!
//! Rendering is a function of the contents and of the user's choices ([`ViewState`](interaction::ViewState)). Commands
//! create the contents and pass them to a [`View`], which returns the user's requests.

mod draw;
mod interaction;
mod model;
mod screen;
mod view;
mod web;

pub(crate) use interaction::{Colours, UserAction};
pub(crate) use model::{FlowRow, PortRow, SwitchRow, ViewModel};
pub(crate) use view::View;
pub(crate) use web::WebView;
