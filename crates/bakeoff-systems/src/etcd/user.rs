//! The user of a connection, whose token a node may forget in the middle of a load.
//!
//! Nodes forget a token that they did not see for some minutes (`--auth-token-ttl`). A connection whose token is gone
//! ends, and the next one asks for another token. Its own calls go out again on the connection after that.
//!
//! Not here: signing in before the load (`mod`), calls (`session`).

use std::sync::Arc;

use bakeoff_core::secrets;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::grpc::{Client, Status};

use super::messages;
use crate::{ClientToken, Login, Memory};

/// A token that a node no longer knows.
struct ForgottenToken(Arc<ClientToken>);

/// The user of a connection.
pub(super) struct User {
    memory: Memory,
    pub(super) login: Arc<Login>,
    /// The token that calls show.
    pub(super) token: Option<Arc<ClientToken>>,
    standing: Standing,
}

/// How a connection stands with its user.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Calls show the token.
    SignedIn,
    /// A token is asked for; the connection is for that alone.
    SigningIn,
    /// There is a new token, or the one that calls show is not known any more: the next connection takes over.
    Over,
}

impl User {
    /// Returns the user of the study's credentials; `None` if there are none.
    pub(super) fn new(memory: &Memory) -> Option<Self> {
        let login = memory.get::<Login>()?;
        let forgotten = memory.get::<ForgottenToken>();
        let is_known =
            |token: &Arc<ClientToken>| forgotten.is_none_or(|forgotten| forgotten.0.0 != token.0);
        let token = memory.get::<ClientToken>().filter(is_known);
        let standing = if token.is_some() { Standing::SignedIn } else { Standing::SigningIn };
        Some(Self { memory: memory.clone(), login, token, standing })
    }

    /// Returns true if the connection stands like this with its user.
    pub(super) fn is(&self, standing: Standing) -> bool {
        self.standing == standing
    }

    /// Has the next connection sign in, unless another one has done so meanwhile.
    pub(super) fn forget_token(&mut self) {
        self.standing = Standing::Over;
        if let Some(token) = &self.token {
            self.memory.keep(ForgottenToken(token.clone()));
        }
    }

    /// Takes the answer to the sign-in.
    ///
    /// # Errors
    /// When the node breaks the protocol, or refuses the user.
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
            self.standing = Standing::Over;
        }
        Ok(())
    }
}
