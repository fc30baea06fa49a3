use weft_object::{Full, Graph, Types};
use weft_transport::{Memory, Purpose};

fn both(memory: &Memory, types: &Types) -> Result<(), Full> {
    Graph::build(memory, Purpose::Send, types, |one| {
        let object = one.alloc(7_u64)?;
        Graph::build(memory, Purpose::Send, types, |other| {
            *other.get_mut(object) = 8;
            other.alloc(9_u64)
        })?;
        Ok(object)
    })?;
    Ok(())
}

fn main() {}
