//! Figures of an experiment: points in series, with the paper's values.

use telemetry::{Cell, Table};

/// How points are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mark {
    /// Joined by lines, in the order of x.
    Line,
    /// A bar for each.
    Bar,
    /// A point for each.
    Point,
    /// The share of a series whose y is at most the value; x does not count.
    Distribution,
}

/// Where a point lies along the x axis.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum At {
    /// On a scale.
    Number(f64),
    /// One of several things that are compared.
    Name(String),
}

impl From<f64> for At {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<&str> for At {
    fn from(value: &str) -> Self {
        Self::Name(value.to_owned())
    }
}

/// Name and unit of an axis, as columns of tables have them.
type Axis = (&'static str, &'static str);

/// A picture of an experiment.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    name: String,
    title: String,
    caption: String,
    x: Axis,
    y: Axis,
    mark: Mark,
    logarithmic: bool,
    points: Vec<(String, At, f64)>,
    references: Vec<(String, f64)>,
}

impl Figure {
    /// A figure without points. Its files are called `name`.
    pub(crate) fn new(name: impl Into<String>, title: impl Into<String>, mark: Mark) -> Self {
        Self {
            name: name.into(),
            title: title.into(),
            caption: String::new(),
            x: ("x", ""),
            y: ("y", ""),
            mark,
            logarithmic: false,
            points: Vec::new(),
            references: Vec::new(),
        }
    }

    /// Names and units of the axes.
    pub(crate) fn axes(mut self, x: Axis, y: Axis) -> Self {
        (self.x, self.y) = (x, y);
        self
    }

    /// What stands below it.
    pub(crate) fn caption(mut self, text: impl Into<String>) -> Self {
        self.caption = text.into();
        self
    }

    /// A logarithmic axis for y; for a distribution, whose y lies along the horizontal axis, that.
    pub(crate) fn logarithmic(mut self) -> Self {
        self.logarithmic = true;
        self
    }

    /// The same, measured on soft NICs: with a name and a title that say so.
    pub(crate) fn on_soft(self) -> Self {
        let (name, title) = (format!("{}-soft", self.name), self.title);
        Self { name, title: format!("{title} (soft NICs on this machine)"), ..self }
    }

    /// Adds a point.
    pub(crate) fn point(&mut self, series: impl Into<String>, x: impl Into<At>, y: f64) {
        self.points.push((series.into(), x.into(), y));
    }

    /// Adds a value of the paper.
    pub(crate) fn reference(&mut self, name: impl Into<String>, y: f64) {
        self.references.push((name.into(), y));
    }

    /// Its data, a row a point.
    pub fn table(&self) -> Table {
        let named = self.points.iter().any(|(_, x, _)| matches!(x, At::Name(_)));
        let table = Table::new(&self.name).texts("series");
        let table = if named { table.texts(self.x.0) } else { table.floats(self.x.0, self.x.1) };
        let mut table = table.floats(self.y.0, self.y.1);
        for (series, x, y) in &self.points {
            let x = match x {
                At::Name(name) => Cell::Text(name),
                At::Number(_) if named => Cell::Missing,
                At::Number(value) => Cell::Float(*value),
            };
            let y = if y.is_finite() { Cell::Float(*y) } else { Cell::Missing };
            table.push([Cell::Text(series), x, y]);
        }
        table
    }

    /// How `table`, which is [`Figure::table`], is drawn.
    pub(crate) fn draw<'a>(&self, table: &'a Table) -> telemetry::Figure<'a> {
        let labels: Vec<&str> = table.columns().iter().map(telemetry::Column::label).collect();
        let (x, y) = (labels[1], labels[2]);
        let figure = match self.mark {
            Mark::Line => telemetry::Figure::line(table, x, y),
            Mark::Bar => telemetry::Figure::bar(table, x, y),
            Mark::Point => telemetry::Figure::point(table, x, y),
            Mark::Distribution => telemetry::Figure::ecdf(table, y),
        };
        let mut figure = figure.by("series").title(&self.title).caption(&self.caption);
        if self.logarithmic {
            figure = match self.mark {
                Mark::Distribution => figure.log_x(),
                Mark::Line | Mark::Bar | Mark::Point => figure.log_y(),
            };
        }
        for (name, value) in &self.references {
            figure = figure.rule(*value, name);
        }
        figure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_a_table_with_a_row_a_point() {
        let mut figure =
            Figure::new("f", "a title", Mark::Line).axes(("time", "ms"), ("pauses", ""));
        figure.point("none, at all", 1.5, 3.0);
        figure.point("b", 2.0, 0.25);
        assert_eq!(
            figure.table().to_csv(),
            "series,time_ms,pauses\n\"none, at all\",1.5,3\nb,2,0.25\n"
        );
    }

    #[test]
    fn names_and_values_of_the_paper_are_drawn() {
        let mut figure = Figure::new("f", "a title", Mark::Bar).axes(("way", ""), ("rate", "gbps"));
        figure.point("a", "up", 1.0);
        figure.reference("paper", 2.5);
        let table = figure.table();
        let drawn = figure.draw(&table).to_vega_lite().to_string();
        assert!(drawn.contains("\"up\"") && drawn.contains("2.5"), "{drawn}");
    }
}
