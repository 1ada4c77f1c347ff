//! Keeps a connection signed in when a node forgets its token during a load.
//!
//! Nodes forget a token that was unused for some minutes (`--auth-token-ttl`). A connection with a forgotten token
//! ends, and the next one requests a new token. Its own calls are sent again on the connection after that.
//!
//! Not here: the sign-in before the load (`mod`), calls (`session`).

use std::sync::Arc;

use bakeoff_core::secrets;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::grpc::{Client, Status};

use super::messages;
use crate::{ClientToken, Login, Memory};

/// A token that a node no longer knows.
struct ForgottenToken(Arc<ClientToken>);

pub(super) struct User {
    memory: Memory,
    pub(super) login: Arc<Login>,
    /// Token of the calls.
    pub(super) token: Option<Arc<ClientToken>>,
    standing: SignInState,
}

/// Sign-in state of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SignInState {
    /// Calls use the token.
    SignedIn,
    /// A token was requested. The connection serves only that.
    SigningIn,
    /// A new token has arrived, or the current one was forgotten: the next connection takes over.
    Over,
}

impl User {
    /// Returns the user of the study's credentials, or `None` without credentials.
    pub(super) fn new(memory: &Memory) -> Option<Self> {
        let login = memory.get::<Login>()?;
        let forgotten = memory.get::<ForgottenToken>();
        let is_known =
            |token: &Arc<ClientToken>| forgotten.is_none_or(|forgotten| forgotten.0.0 != token.0);
        let token = memory.get::<ClientToken>().filter(is_known);
        let standing = if token.is_some() { SignInState::SignedIn } else { SignInState::SigningIn };
        Some(Self { memory: memory.clone(), login, token, standing })
    }

    /// Returns true if the connection is in this state.
    pub(super) fn is(&self, standing: SignInState) -> bool {
        self.standing == standing
    }

    /// Makes the next connection sign in, unless another one has done so already.
    pub(super) fn forget_token(&mut self) {
        self.standing = SignInState::Over;
        if let Some(token) = &self.token {
            self.memory.keep(ForgottenToken(token.clone()));
        }
    }

    /// Processes the answer to the sign-in.
    ///
    /// # Errors
    /// When the node violates the protocol, or refuses the user.
    pub(super) fn receive(
        &mut self,
        client: &mut Client,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), ProtocolError> {
        let mut answer = None;
        client.receive(input, out, &mut |_, reply: Result<&[u8], Status<'_>>| {
            answer = Some(match reply {
                Ok(message) => messages::read_token(message),
                Err(status) => Err(ProtocolError::new(format!("signing in again: {status}"))),
            });
        })?;
        if let Some(token) = answer {
            let token = token?;
            secrets::note(&token);
            self.memory.keep(ClientToken(token));
            self.standing = SignInState::Over;
        }
        Ok(())
    }
}
