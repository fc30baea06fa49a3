//! Ask: pass a question on to the coordinator of this node, which answers when it can.

use std::sync::Arc;

use weft_protocol::{AskReply, ErrorCode, ErrorReply};
use weft_transport::CallId;

use crate::cluster::coordination::Mail;
use crate::coordinator::codec::{decode_ask, encode_answer};
use crate::coordinator::{Answer, Ask};
use crate::work::Work;

pub(crate) fn execute(
    work: &mut Work<'_, '_, '_>,
    call: CallId,
    asked: &weft_protocol::Ask<'_>,
) -> Result<(), ErrorReply<'static>> {
    let node = work.node;
    let ask = decode_ask(asked.body).map_err(|_| ErrorReply::new(ErrorCode::MalformedRequest))?;
    if ask == Ask::Introduce {
        let body = encode_answer(&Answer::Introduced(node.coordination.introduction()));
        work.replies.reply(call, AskReply { body: &body });
        return Ok(());
    }
    let from = work.replies.batch.peer().node;
    let (responder, memory) =
        (work.replies.responder(), work.replies.batch.connection().memory().clone());
    let answers = Arc::clone(&node.answers);
    let reply = Box::new(move |answer: Answer| {
        let body = encode_answer(&answer);
        answers.write_and_give(&memory, responder, AskReply { body: &body });
    });
    let mail = Mail::Question { from, ask, reply };
    if let Err(Mail::Question { reply, .. }) =
        node.coordination.coordinator.put(asked.body.len(), mail)
    {
        // There is no coordinator here, or it is behind.
        reply(Answer::NotLeader { leader: node.coordination.leader() });
    }
    Ok(())
}
