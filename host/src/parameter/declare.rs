//! The macro that declares the parameters of a configuration.

/// Declares a configuration: a struct, its `Default` and its [`Parameters`](crate::parameter::Parameters).
///
/// A field is written as `name: Type = default => { ... };`. Its documentation is the help text of the parameter; the
/// braces set the fields of its [`ParameterInfo`](crate::parameter::ParameterInfo). The parameter has the name of the
/// field, unless the braces set another `name`. The braces contain one of:
///
/// - `unit: .., range: .., source: ..`, and any other field of the description;
/// - `in 0.0..=1.0, unit: ..` for a value within limits, for every type with an order;
/// - `value in 0.0..=1.0, unit: ..` for a value within limits or a keyword ([`KeywordOr`](crate::parameter::KeywordOr));
/// - `info: MIN_RATE` for a description shared by several schemes, after `in ..,` if the value has limits;
/// - `part` for a field that is itself a configuration, whose parameters become parameters of the enclosing one;
///   `part, window from "source"` replaces the source of one of them, and `part: list` declares only the parameters
///   of a list.
///
/// # Examples
///
/// ```
/// use weir_host::parameter::Parameters;
/// use weir_units::Time;
///
/// weir_host::parameters! {
///     /// A configuration.
///     pub struct Config {
///         /// Multiplicative decrease factor.
///         beta: f64 = 0.5 => { in 0.0..=1.0, symbol: "beta", range: "0 to 1", source: "this example" };
///         /// Time between two increases.
///         interval: Time = Time::from_us(55) => {
///             in Time::from_us(1)..=Time::from_ms(1), unit: "s", range: "1us to 1ms", source: "this example"
///         };
///     }
/// }
///
/// let mut config = Config::default();
/// let [beta, interval] = &Config::parameters()[..] else { panic!() };
/// assert_eq!((beta.info.name, interval.info.help), ("beta", "Time between two increases."));
/// beta.set(&mut config, "25%").unwrap();
/// assert_eq!(config.beta, 0.25);
/// assert!(beta.set(&mut config, "2").is_err() && interval.set(&mut config, "2ms").is_err());
/// ```
#[macro_export]
macro_rules! parameters {
    (
        $(#[$meta:meta])*
        $vis:vis struct $config:ident {
            $($(#[doc = $help:literal])* $field_vis:vis $field:ident: $type:ty = $default:expr => $about:tt;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        $vis struct $config {
            $($(#[doc = $help])* $field_vis $field: $type,)*
        }

        impl Default for $config {
            fn default() -> Self {
                $config { $($field: $default,)* }
            }
        }

        impl $crate::parameter::Parameters for $config {
            fn parameters() -> Vec<$crate::parameter::ParameterDef<Self>> {
                let mut all = Vec::new();
                $(
                    #[allow(unused_variables)]
                    let help = concat!($($help),*).trim_start();
                    $crate::parameters!(@declare all, help, $config, $field, $type, $about);
                )*
                all
            }
        }
    };

    (@declare $all:ident, $help:ident, $config:ty, $field:ident, $type:ty,
        { part $(, $name:ident from $source:expr)* }
    ) => {
        let parameters = <$type as $crate::parameter::Parameters>::parameters();
        $(let parameters = $crate::parameter::with_source(parameters, stringify!($name), $source);)*
        $all.extend($crate::parameter::nested(parameters, |config: &mut $config| &mut config.$field));
    };
    (@declare $all:ident, $help:ident, $config:ty, $field:ident, $type:ty, { part: $parameters:expr }) => {
        $all.extend($crate::parameter::nested($parameters, |config: &mut $config| &mut config.$field));
    };
    (@declare $all:ident, $help:ident, $config:ty, $field:ident, $type:ty, { in $limits:expr, $($about:tt)* }) => {
        let info = $crate::parameters!(@info $help, $field, $($about)*);
        $all.push($crate::parameter::ParameterDef::with_range(info, $limits, |config: &mut $config| &mut config.$field));
    };
    (@declare $all:ident, $help:ident, $config:ty, $field:ident, $type:ty, { value in $limits:expr, $($about:tt)* }) => {
        let info = $crate::parameters!(@info $help, $field, $($about)*);
        $all.push($crate::parameter::ParameterDef::with_value_range(info, $limits, |config: &mut $config| &mut config.$field));
    };
    (@declare $all:ident, $help:ident, $config:ty, $field:ident, $type:ty, { $($about:tt)* }) => {
        let info = $crate::parameters!(@info $help, $field, $($about)*);
        $all.push($crate::parameter::ParameterDef::new(info, |config: &mut $config| &mut config.$field));
    };

    (@info $help:ident, $field:ident, info: $info:expr) => { $info };
    (@info $help:ident, $field:ident, $($key:ident: $value:expr),* $(,)?) => {{
        let mut info = $crate::parameter::ParameterInfo { name: stringify!($field), help: $help, ..Default::default() };
        $(info.$key = $value;)*
        info
    }};
}
