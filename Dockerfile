# trajmill with the embedded default and web environments: `serve`, `view`, `deploy`, workers, and everything else.
#   docker build --tag trajmill .
#   docker run --rm --volume "$PWD:/data" trajmill evolve --config /data/trajmill.toml
FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends chromium-headless-shell fonts-dejavu-core fonts-noto-core \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/trajmill
# The packages first: they change less often than the code, and take most of the time.
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY trajmill ./trajmill
COPY docs/examples ./docs/examples
RUN pip install --no-cache-dir --constraint constraints.txt --extra-index-url https://download.pytorch.org/whl/cpu \
    '.[web,cluster]'

# Nothing of it needs root. The folder of the configuration and the warehouse is mounted, and must be writable for 1000.
# A volume takes the owner of the folder that it is mounted on, so that of Prefect's home is made here.
RUN useradd --uid 1000 --create-home trajmill && install --directory --owner 1000 --group 1000 /home/trajmill/prefect
USER trajmill
WORKDIR /data
ENV PREFECT_HOME=/home/trajmill/prefect DO_NOT_TRACK=1 PREFECT_SERVER_ANALYTICS_ENABLED=false
ENTRYPOINT ["trajmill"]
CMD ["--help"]
