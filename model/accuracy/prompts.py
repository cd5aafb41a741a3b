"""Three built-in prompts of fixed length: one short, one past the sliding window, one past the candidate filter."""

from __future__ import annotations

import torch

from ..checkpoint.loader import Checkpoint
from ..checkpoint.tokenizer import load_tokenizer
from ..config import ModelConfig

PROMPT_LENGTHS = {"p11": 11, "p172": 172, "p715": 715}
"""Tokens of each prompt by its name."""

_SEED = 41

_SHORT = "A systolic array multiplies matrices by streaming operands between neighbouring cells."

_MEDIUM = """\
A lathe turns the work, not the tool. Before the first cut, check that the tool tip sits exactly at the height of the
spindle axis: a tip 0.2 mm too low leaves a pip in the middle of a faced surface, and a tip too high rubs instead of
cutting. Set the feed to 0.1 mm per turn and the cutting speed to 90 m/min for mild steel with a carbide insert. For a
bar of 40 mm diameter that is about 716 turns per minute, since n = 1000 * v / (pi * d). Take a first pass of half a
millimetre, measure, and only then divide what is left into equal passes. The last pass should be deep enough to cut
under the surface hardened by the pass before. If the chip comes off blue and in long ribbons, raise the feed a little;
if the surface shows a spiral pattern, lower it. Deburr every edge, and write the measured diameter next to the nominal
one: 39.98 against 40.00 is a fact that the next operation needs.
"""

_LONG = """\
How a wooden bridge is surveyed

The inspection begins at the bank. Walk under the deck before walking on it, because most damage starts where water
stands: at the bearings, in the mortises of the posts, behind the planks that hide the ends of the joists. Carry a
moisture meter, an awl, a mallet, a steel tape, a lamp and a plan of the structure on which every member has a number.
Number from upstream to downstream and from the left bank to the right, so that the report of another year, written by
another person, speaks about the same piece of wood.

1. Geometry. Stretch a line between the abutments and measure the sag of both main girders at the quarter points and in
the middle. A girder of 12 m that was built with a camber of 30 mm and now hangs 14 mm below the line has moved 44 mm.
Compare with the last survey rather than with a table: a deflection that has not changed in twenty years is history,
one that grew 6 mm since the autumn is a warning. For a simply supported beam under a uniform load the deflection is
5 * q * L**4 / (384 * E * I), so a tenth more span gives almost half as much again.

2. Moisture. Drive the pins of the meter along the grain, at depths of 5, 15 and 40 mm, and note the temperature of
the wood. Below 18 percent fungi do not grow; above 28 percent the fibres are saturated and the reading only says
"wet". What matters is the gradient: a dry face over a wet core means that water enters somewhere else and cannot
leave. Paint, tar and metal plates make the core wetter, not drier.

3. Sound. Strike each member every half metre. Healthy oak rings, decayed oak answers with a dull thud, and a hollow
gives a sound like a drum. Mark the dull places with chalk, then push the awl in: more than 10 mm without effort is
decay. Where the result is in doubt, drill with a resistance drill of 3 mm and keep the printed curve. The plateau of
the curve is sound wood; the valley is not.

4. Joints. Look for gaps between shoulder and post, for pegs that stand proud, for rust that bleeds out of a bolt hole.
A bolt that can be turned by hand carries nothing. Tighten it, write down how many turns it took, and look again after
the first frost, when the timber has shrunk. Never weld near a joint and never replace an oak peg with a steel one of
the same diameter: the steel will not crush, so the mortise splits.

5. Loads. The plate at the entrance says 3.5 t, but the plate is older than the gravel that was spread on the deck.
Gravel weighs about 1.8 t per cubic metre; a layer of 8 cm on a deck of 12 m by 3 m adds more than 5 t, which nobody
ever calculated. Snow, ice on the railings and a hay wagon may come together. Compute the sum, not the largest term.

    def utilisation(moment, width, height, strength):
        section_modulus = width * height**2 / 6
        return moment / section_modulus / strength

The function above takes the bending moment in N mm, the section in mm and the strength in N/mm2. With M = 48e6, a
section of 240 by 360 and a design strength of 12.9 the answer is 0.72, and with a tenth of the height lost to decay it
is 0.89. Two such losses, one above and one below, do not add: they multiply, because the height enters squared.

The report closes with a list of measures in the order of their urgency, each with the number of the member, the day
by which it must be done and the name of the person who will look at it afterwards. A survey that ends with the word
"observe" and no date has not been finished. Photographs are taken from the same points every time, with the tape in
the picture, and the negative or the file is kept together with the plan. Finally the keys go back to the parish, the
chalk marks stay, and the line between the abutments is rolled up dry.
"""

PROMPT_TEXTS = {"p11": _SHORT, "p172": _MEDIUM, "p715": _LONG}


def built_in_prompts(checkpoint: Checkpoint) -> dict[str, list[int]]:
    """Token ids of each built-in prompt: text encoded with the checkpoint's tokenizer and cut to length.

    A checkpoint that has hashing tables but no tokenizer gets seeded ids instead, none of them an image token.
    """
    path = checkpoint.directory / "tokenizer.json"
    if not path.exists():
        return {name: _seeded_ids(checkpoint.config, length) for name, length in PROMPT_LENGTHS.items()}
    tokenizer = load_tokenizer(path)
    return {
        name: tokenizer.encode(PROMPT_TEXTS[name], add_special_tokens=False).ids[:length]
        for name, length in PROMPT_LENGTHS.items()
    }


def _seeded_ids(config: ModelConfig, length: int) -> list[int]:
    generator = torch.Generator().manual_seed(_SEED + length)
    ids = torch.randint(config.vocab_size - 1, (length,), generator=generator)
    if config.image_token_id >= 0:
        ids += ids >= config.image_token_id
    return ids.tolist()
