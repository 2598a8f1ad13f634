//! Words for `${random.word}`: short, common, harmless, and the same in every version.

pub const WORDS: &[&str] = &[
    "amber", "anchor", "apple", "arrow", "autumn", "bamboo", "banjo", "basket", "beach", "berry",
    "bicycle", "birch", "blanket", "blossom", "bottle", "branch", "bread", "bridge", "bucket",
    "butter", "button", "cabin", "candle", "canoe", "canyon", "carpet", "castle", "cedar", "chair",
    "cherry", "circle", "citrus", "clover", "cobalt", "coffee", "comet", "copper", "coral",
    "cotton", "cradle", "crystal", "curtain", "daisy", "desert", "dolphin", "drawer", "eagle",
    "earth", "ember", "engine", "falcon", "feather", "fern", "fiddle", "field", "flame", "forest",
    "fossil", "fountain", "garden", "ginger", "glacier", "granite", "grape", "hammer", "harbor",
    "harvest", "hazel", "helmet", "honey", "horizon", "island", "ivory", "jacket", "jasmine",
    "jungle", "kettle", "ladder", "lagoon", "lantern", "laurel", "lemon", "lilac", "linen",
    "lumber", "magnet", "mango", "maple", "marble", "meadow", "melon", "mirror", "mitten",
    "monsoon", "mosaic", "mountain", "nectar", "needle", "nutmeg", "oasis", "ocean", "olive",
    "onion", "orbit", "orchard", "otter", "oyster", "paddle", "pebble", "pepper", "piano",
    "pillow", "pine", "planet", "plum", "pocket", "pond", "poppy", "prairie", "prism", "pumpkin",
    "quartz", "quilt", "rabbit", "raft", "rain", "raven", "reef", "ribbon", "river", "rocket",
    "saddle", "saffron", "sail", "salmon", "sandal", "scarf", "shadow", "shell", "silver", "spark",
    "spiral", "spring", "spruce", "stone", "storm", "summit", "sunset", "table", "tea", "temple",
    "thistle", "thunder", "timber", "topaz", "trail", "tulip", "tunnel", "turtle", "valley",
    "vanilla", "velvet", "violet", "walnut", "water", "willow", "window", "winter", "wool",
    "zebra",
];
