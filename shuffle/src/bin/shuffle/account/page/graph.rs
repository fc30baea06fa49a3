//! The picture of the stages: what was read, what became of it, and what was written.
//!
//! Each is below all that it goes on with, as far up as that lets it be. A stage of a loop goes on with a later one, too, that of the round before: that edge leads back up.

use std::fmt::{self, Write as _};

use super::super::merged::{Merged, MergedStage, StageEnd};
use super::super::told::Input;
use super::markup::{Plain, colour, end_of};
use crate::amounts::{bytes, count, time};

const NODE_WIDTH: usize = 350;
const NODE_HEIGHT: usize = 52;
const GAP_X: usize = 36;
const GAP_Y: usize = 30;

/// Around all of it, and around a loop.
const MARGIN: usize = 34;
const LOOP_MARGIN: usize = 14;

/// How many characters of a path have room.
const PATH_CHARACTERS: usize = 46;

/// What is drawn as a box.
#[derive(Clone, Copy)]
enum Node<'m> {
    Read(&'m str),
    Stage(&'m MergedStage),
    Written(&'m str),
}

/// A box and its place, in rows and columns.
struct Placed<'m> {
    node: Node<'m>,
    inputs: &'m [Input],
    row: usize,
    column: usize,
}

pub(super) fn write(out: &mut String, merged: &Merged) -> fmt::Result {
    let nodes = place(merged);
    let Some(rows) = nodes.iter().map(|node| node.row + 1).max() else {
        return out.write_str("<p class=\"soft\">No worker has told of a stage.</p>\n");
    };
    let columns = nodes.iter().map(|node| node.column + 1).max().unwrap_or(1);
    let width = 2 * MARGIN + columns * (NODE_WIDTH + GAP_X) - GAP_X;
    let height = 2 * MARGIN + rows * (NODE_HEIGHT + GAP_Y) - GAP_Y;
    writeln!(
        out,
        "<svg width=\"{width}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"stages\">"
    )?;
    out.write_str(
        "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto-start-reverse\"><path class=\"tip\" d=\"M0 0 L8 4 L0 8 Z\"/></marker></defs>\n",
    )?;
    loops(out, merged, &nodes)?;
    for node in &nodes {
        for input in node.inputs {
            if let Some(from) = nodes.iter().find(|other| other.is(input)) {
                edge(out, from, node)?;
            }
        }
    }
    for placed in &nodes {
        draw(out, merged, placed)?;
    }
    out.write_str("</svg>\n")
}

/// Everything below what it goes on with; what is in the same row stands side by side.
fn place(merged: &Merged) -> Vec<Placed<'_>> {
    let read = merged.read.iter().map(|path| (Node::Read(path), &[][..]));
    let stages = merged.stages.iter().map(|stage| (Node::Stage(stage), &stage.inputs[..]));
    let written = merged.written.iter().map(|file| (Node::Written(&file.path), &file.inputs[..]));
    let mut placed: Vec<Placed<'_>> = Vec::new();
    for (node, inputs) in read.chain(stages).chain(written) {
        // What comes later is not placed yet: an edge of a loop counts for nothing here.
        let above = placed.iter().filter(|other| inputs.iter().any(|input| other.is(input)));
        let above: Vec<(usize, usize)> = above.map(|other| (other.row, other.column)).collect();
        let row = above.iter().map(|(row, _)| row + 1).max().unwrap_or(0);
        let is_free = |column: &usize| {
            !placed.iter().any(|other| (other.row, other.column) == (row, *column))
        };
        // Below what it goes on with, if there is room.
        let wanted = above.iter().filter(|(above, _)| above + 1 == row).map(|(_, column)| *column);
        let column = wanted.min().unwrap_or(0);
        let column = (column..).find(is_free).unwrap_or(column);
        placed.push(Placed { node, inputs, row, column });
    }
    placed
}

impl Placed<'_> {
    fn is(&self, input: &Input) -> bool {
        match (self.node, input) {
            (Node::Read(path), Input::Read(other)) => path == other,
            (Node::Stage(stage), Input::Stage(number)) => stage.number == *number,
            _ => false,
        }
    }

    fn left(&self) -> usize {
        MARGIN + self.column * (NODE_WIDTH + GAP_X)
    }

    fn top(&self) -> usize {
        MARGIN + self.row * (NODE_HEIGHT + GAP_Y)
    }
}

/// What is behind the stages of each loop.
fn loops(out: &mut String, merged: &Merged, nodes: &[Placed<'_>]) -> fmt::Result {
    let mut numbers: Vec<u32> = merged.stages.iter().filter_map(|stage| stage.in_loop).collect();
    numbers.sort_unstable();
    numbers.dedup();
    for number in numbers {
        let is_inside = |placed: &&Placed<'_>| matches!(placed.node, Node::Stage(stage) if stage.in_loop == Some(number));
        let lefts = || nodes.iter().filter(is_inside).map(Placed::left);
        let tops = || nodes.iter().filter(is_inside).map(Placed::top);
        let (Some(left), Some(right)) = (lefts().min(), lefts().max()) else { continue };
        let (Some(top), Some(bottom)) = (tops().min(), tops().max()) else { continue };
        let (x, y) = (left - LOOP_MARGIN, top - LOOP_MARGIN);
        let width = right - left + NODE_WIDTH + 2 * LOOP_MARGIN + GAP_X / 2;
        let height = bottom - top + NODE_HEIGHT + 2 * LOOP_MARGIN;
        writeln!(
            out,
            "<rect class=\"loop\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"14\"><title>a loop</title></rect>"
        )?;
    }
    Ok(())
}

fn edge(out: &mut String, from: &Placed<'_>, to: &Placed<'_>) -> fmt::Result {
    let middle = NODE_WIDTH / 2;
    if from.row >= to.row {
        // Back up, on the right of both.
        let right = from.left().max(to.left()) + NODE_WIDTH;
        let (y, end) = (from.top() + NODE_HEIGHT / 2 + 8, to.top() + NODE_HEIGHT / 2 - 8);
        let (x, to_x, far) = (from.left() + NODE_WIDTH, to.left() + NODE_WIDTH + 2, right + 26);
        return writeln!(
            out,
            "<path class=\"edge again\" d=\"M{x} {y} C{far} {y} {far} {end} {to_x} {end}\" marker-end=\"url(#tip)\"/>"
        );
    }
    if from.row + 1 < to.row {
        // Past what is between them, on the left of both.
        let (y, end) = (from.top() + NODE_HEIGHT / 2, to.top() + NODE_HEIGHT / 2);
        let (x, to_x) = (from.left(), to.left() - 2);
        let far = from.left().min(to.left()) - 26;
        return writeln!(
            out,
            "<path class=\"edge\" d=\"M{x} {y} C{far} {y} {far} {end} {to_x} {end}\" marker-end=\"url(#tip)\"/>"
        );
    }
    let (x, y) = (from.left() + middle, from.top() + NODE_HEIGHT);
    let (to_x, end) = (to.left() + middle, to.top() - 2);
    let half = (end - y) / 2;
    writeln!(
        out,
        "<path class=\"edge\" d=\"M{x} {y} C{x} {} {to_x} {} {to_x} {end}\" marker-end=\"url(#tip)\"/>",
        y + half,
        end - half
    )
}

fn draw(out: &mut String, merged: &Merged, placed: &Placed<'_>) -> fmt::Result {
    let (x, y) = (placed.left(), placed.top());
    let (text_x, right) = (x + 18, x + NODE_WIDTH - 14);
    let (first, second) = (y + 22, y + 40);
    let file = |out: &mut String, what: &str, path: &str| {
        writeln!(out, "<g><title>{}</title>", Plain(path))?;
        writeln!(
            out,
            "<rect class=\"file\" x=\"{x}\" y=\"{y}\" width=\"{NODE_WIDTH}\" height=\"{NODE_HEIGHT}\" rx=\"26\"/>"
        )?;
        writeln!(out, "<text class=\"small\" x=\"{text_x}\" y=\"{first}\">{what}</text>")?;
        let shown = end_of(path, PATH_CHARACTERS);
        writeln!(out, "<text x=\"{text_x}\" y=\"{second}\">{}</text></g>", Plain(shown))
    };
    match placed.node {
        Node::Read(path) => file(out, "read", path),
        Node::Written(path) => file(out, "written", path),
        Node::Stage(stage) => {
            let MergedStage { number, verb, times, seconds, records_out, bytes_shuffled, .. } =
                stage;
            let class = colour(&merged.stages, *number);
            let mut times =
                if *times > 1 { format!(", {} times", count(*times)) } else { String::new() };
            let broken = match stage.end {
                StageEnd::Done => "",
                StageEnd::Failed => ", failed",
                StageEnd::Stopped => ", stopped",
            };
            times += broken;
            let broken = if broken.is_empty() { "" } else { " broken" };
            writeln!(out, "<g><title>{}</title>", Plain(format!("stage {number}, {verb}{times}")))?;
            writeln!(
                out,
                "<rect class=\"node{broken}\" x=\"{x}\" y=\"{y}\" width=\"{NODE_WIDTH}\" height=\"{NODE_HEIGHT}\" rx=\"9\"/>"
            )?;
            writeln!(
                out,
                "<rect class=\"f{class}\" x=\"{}\" y=\"{}\" width=\"4\" height=\"{}\" rx=\"2\"/>",
                x + 7,
                y + 9,
                NODE_HEIGHT - 18
            )?;
            writeln!(
                out,
                "<text class=\"name\" x=\"{text_x}\" y=\"{first}\">{}</text>",
                Plain(verb)
            )?;
            writeln!(
                out,
                "<text class=\"small\" x=\"{right}\" y=\"{first}\" text-anchor=\"end\">{}</text>",
                time(*seconds)
            )?;
            let what = format!("{} records, {} sent", count(*records_out), bytes(*bytes_shuffled));
            writeln!(out, "<text class=\"small\" x=\"{text_x}\" y=\"{second}\">{what}</text>")?;
            writeln!(
                out,
                "<text class=\"small\" x=\"{right}\" y=\"{second}\" text-anchor=\"end\">stage {number}{times}</text></g>"
            )
        }
    }
}
