# Clozeline as a command; without arguments, the demo. Files of yours are in folders that you mount:
# `docker build --tag clozeline . && docker run --rm --volume "$PWD:/work" clozeline pipeline --config recipe:demo ...`
FROM python:3.12-slim
# DeepSpeed compiles its CPU optimizer at the first start.
RUN apt-get update && apt-get install --yes --no-install-recommends g++ make && rm -rf /var/lib/apt/lists/*
WORKDIR /clozeline
COPY . .
RUN make install
ENV PATH=/clozeline/.venv/bin:$PATH
WORKDIR /work
ENTRYPOINT ["clozeline"]
CMD ["demo", "output=runs/demo"]
