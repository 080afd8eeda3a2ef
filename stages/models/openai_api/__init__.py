"""A `ChatModel` behind any server that speaks the OpenAI chat protocol: vLLM, SGLang, llama.cpp, a hosted service.

The HTTP client is aiohttp: a call through the `openai` package costs about ten times the time of one through aiohttp
(see benchmarks/model_client.py), it knows neither several servers nor a bound on the size of an answer, and its
retries are per call, not per server.
"""
