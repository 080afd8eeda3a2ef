CREATE OR REPLACE MACRO wilson_low(successes, n, z := 1.959964) AS greatest(
    0, (successes + z * z / 2 - z * sqrt(successes * (n - successes) / n + z * z / 4)) / (n + z * z)
);
CREATE OR REPLACE MACRO wilson_high(successes, n, z := 1.959964) AS least(
    1, (successes + z * z / 2 + z * sqrt(successes * (n - successes) / n + z * z / 4)) / (n + z * z)
);
CREATE OR REPLACE MACRO word_f1(said, meant) AS CASE
    WHEN said = meant THEN 1.0
    WHEN len(string_split(array_to_string(said, ' '), array_to_string(meant, ' '))) > 2 THEN 0.0
    ELSE 2 * coalesce(list_sum(
        [least(len([1 FOR x IN said IF x = word]), len([1 FOR x IN meant IF x = word]))
            FOR word IN list_distinct(said)]
    ), 0) / nullif(len(said) + len(meant), 0) END;
CREATE OR REPLACE MACRO swipe_direction(across, down) AS CASE
    WHEN abs(down) >= abs(across) THEN if(down > 0, 'down', 'up') ELSE if(across > 0, 'right', 'left') END;
CREATE OR REPLACE MACRO share_apart(x, y, x2, y2, width, height) AS
    sqrt(((x - x2) / width) ** 2 + ((y - y2) / height) ** 2);
CREATE OR REPLACE MACRO moves(x, y, x2, y2, width, height) AS share_apart(x, y, x2, y2, width, height) >= 0.04;
