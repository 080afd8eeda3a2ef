"""A `ChatModel` on any server with the OpenAI chat protocol: vLLM, SGLang, llama.cpp, a hosted service.

The HTTP client is aiohttp. The `openai` package was measured too (benchmarks/model_client.py): a call through it takes
five to ten times the processor time, it bounds no answer's size, and it knows one server, not several.
"""
