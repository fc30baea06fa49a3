struct Point {
    x: f64,
    y: f64,
}

#[weft_object::service]
trait Map {
    fn mark(&self, point: Point);
}

fn main() {}
