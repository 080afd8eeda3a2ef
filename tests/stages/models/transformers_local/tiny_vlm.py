"""A Qwen2.5-VL of random weights, small enough to be made by a test: a real folder for transformers and for vLLM.

It understands nothing; it loads, looks at images, fills a context and writes tokens as its big sisters do.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

CONTEXT: Final = 2048
"""Longest prompt with its answer, in tokens."""
FACTOR: Final = 28
MAX_PIXELS: Final = 64 * FACTOR * FACTOR
"""A picture costs at most 64 tokens."""
MIN_PIXELS: Final = 4 * FACTOR * FACTOR

_CORPUS = [
    '{"correct": true, "reason": "The order was placed in the right size.", "redundant_steps": [1, 2]}',
    '{"analysis": "The button was pressed and the page opened.", "summary": "opened the cart", "label": "GOOD"}',
    "Thought: the switch is off. Action: click on the switch. Conclusion: the switch is on now, the task is done.",
    '<tool_call>\n{"name": "mobile_use", "arguments": {"action": "click", "coordinate": [120, 640]}}\n</tool_call>',
    "You are a helpful assistant who looks at screenshots of phones and desktops and judges what was done in them.",
]
_CHAT_TEMPLATE = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content -%}
{% if part.type == 'text' %}{{ part.text }}{% else %}<|vision_start|><|image_pad|><|vision_end|>{% endif %}
{%- endfor %}{% endif %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif -%}
"""


def build_tiny_vlm(folder: Path, seed: int = 0, texts: Sequence[str] = (), size: int = 600) -> Path:
    """Write a model with random weights by `seed`, and `size` tokens for some texts. Takes less than a second."""
    from transformers import Qwen2Tokenizer  # takes seconds to import

    from trajmill.stages.models.untrained import CONTROL, END, PADDING, write_qwen

    vocabulary, merges = tiny_vocabulary([*_CORPUS, *texts], size)
    tokenizer = Qwen2Tokenizer(
        vocab=vocabulary,
        merges=merges,  # type: ignore[arg-type]  # BPE takes pairs
        eos_token=END,
        pad_token=PADDING,
        chat_template=_CHAT_TEMPLATE,
        model_max_length=CONTEXT,
    )
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in CONTROL])
    # Heads of 32 numbers: vLLM's attention on a CPU knows no smaller ones.
    text = {
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": CONTEXT,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [4, 6, 6]},
    }
    vision = {
        "depth": 2,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_heads": 2,
        "out_hidden_size": 128,
        "fullatt_block_indexes": [1],
        "window_size": 112,
    }
    return write_qwen(folder, tokenizer, _IMAGE_SETTINGS, text, vision, seed)


_IMAGE_SETTINGS: Final = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "processor_class": "Qwen2_5_VLProcessor",
    "min_pixels": MIN_PIXELS,
    "max_pixels": MAX_PIXELS,
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}


def tiny_vocabulary(texts: Sequence[str] = _CORPUS, size: int = 600) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """At most so many tokens with their ids, and merges: all bytes, and words of the texts."""
    bpe = Tokenizer(BPE())
    bpe.pre_tokenizer = ByteLevel(add_prefix_space=False)
    alphabet = ByteLevel.alphabet()
    trainer = BpeTrainer(vocab_size=size, min_frequency=1, initial_alphabet=alphabet, show_progress=False)
    bpe.train_from_iterator(texts, trainer)
    trained = json.loads(bpe.to_str())["model"]
    return trained["vocab"], [(first, second) for first, second in trained["merges"]]
