"""Pictures and pages that stand alone: shapes, their SVG, and what every HTML page shares."""
