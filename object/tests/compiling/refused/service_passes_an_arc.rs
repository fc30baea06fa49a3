use weft_object::service;

#[service]
trait Watcher {
    fn added(&self, title: &str);
}

#[service]
trait Library {
    fn watch(&self, watcher: std::sync::Arc<dyn Watcher>);
}

fn main() {}
