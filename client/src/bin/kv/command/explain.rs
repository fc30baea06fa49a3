//! `kv explain`: what an error code means and what to do about it.

use serde_json::json;
use weft_client::ErrorCode;

use crate::output::{Format, Output};

/// Explain an error code, or list them all
#[derive(Debug, clap::Args)]
pub(crate) struct Explain {
    /// A code, such as WEFT-1203
    code: Option<ErrorCode>,
}

impl Explain {
    pub(crate) fn run(self, output: &mut Output) -> anyhow::Result<()> {
        match (self.code, output.format) {
            (Some(code), Format::Json) => output.json(&explanation(code))?,
            (Some(code), _) => {
                output.line(format!("{code}: {}", code.name()))?;
                output.line("")?;
                output.line(code.description())?;
                output.line(code.remedy())?;
            }
            (None, Format::Json) => {
                output
                    .json(&ErrorCode::all().iter().copied().map(explanation).collect::<Vec<_>>())?;
            }
            (None, Format::Raw) => {
                for code in ErrorCode::all() {
                    output.line(format!("{code}\t{}", code.name()))?;
                }
            }
            (None, Format::Table) => {
                let rows =
                    ErrorCode::all().iter().map(|code| [code.to_string(), code.name().into()]);
                output.table(&["code", "meaning"], rows, 2)?;
            }
        }
        Ok(())
    }
}

fn explanation(code: ErrorCode) -> serde_json::Value {
    json!({
        "code": code.to_string(),
        "name": code.name(),
        "description": code.description(),
        "remedy": code.remedy(),
        "may_have_been_applied": code.may_have_been_applied(),
    })
}
