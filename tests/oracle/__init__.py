"""The oracle of "never a missed rebuild": random edits of definitions, judged by what buildah really builds."""
